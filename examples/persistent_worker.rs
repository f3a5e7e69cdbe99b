//! A program for `shardwright run --persistent`. It answers every item at once.
//!
//! `shardwright run data --persistent --in-flight 256 -- target/debug/examples/persistent_worker`
//!
//! With a file as its argument, it appends every item to that file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use serde::Deserialize;

#[derive(Deserialize)]
struct Message {
    r#type: String,
    #[serde(default)]
    id: u64,
    #[serde(default)]
    item: serde_json::Value,
}

fn main() -> anyhow::Result<()> {
    let requests = File::open("/dev/fd/3")?;
    let answers = File::options().write(true).open("/dev/fd/4")?;
    match std::env::args_os().nth(1) {
        Some(log) => serve(requests, answers, File::options().append(true).create(true).open(log)?),
        None => serve(requests, answers, io::sink()),
    }
}

fn serve(requests: impl Read, answers: impl Write, log: impl Write) -> anyhow::Result<()> {
    let mut requests = BufReader::new(requests);
    let (mut answers, mut log) = (BufWriter::new(answers), BufWriter::new(log));
    answers.write_all(b"{\"type\":\"hello\",\"version\":1}\n")?;
    let mut line = String::new();
    loop {
        // Flush before the next read blocks.
        if !requests.buffer().contains(&b'\n') {
            log.flush()?;
            answers.flush()?;
        }
        line.clear();
        if requests.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Message { r#type, id, item } = serde_json::from_str(&line)?;
        if r#type == "item" {
            log.write_all(format!("{}\n", item.as_str().unwrap_or_default()).as_bytes())?;
            writeln!(answers, "{{\"type\":\"done\",\"id\":{id}}}")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_answered_and_logged() {
        let requests = "{\"type\":\"hello\",\"version\":1,\"run\":\"01\"}\n\
                        {\"type\":\"item\",\"id\":7,\"item\":\"one\",\"key\":\"a\"}\n\
                        {\"type\":\"checkpoint\",\"shard\":\"0a\",\"fence\":3,\"key\":\"a\"}\n\
                        {\"type\":\"item\",\"id\":8,\"item\":\"two\",\
                        \"key\":{\"base64\":\"/w==\"}}\n";
        let (mut answers, mut log) = (Vec::new(), Vec::new());
        serve(requests.as_bytes(), &mut answers, &mut log).unwrap();
        let expected = "{\"type\":\"hello\",\"version\":1}\n\
                        {\"type\":\"done\",\"id\":7}\n{\"type\":\"done\",\"id\":8}\n";
        assert_eq!(String::from_utf8(answers).unwrap(), expected);
        assert_eq!(log, b"one\ntwo\n");
    }
}
