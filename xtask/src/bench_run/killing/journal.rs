//! The items that commands have logged.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};

/// A file of numbers, one to a line, that grows while it is read.
pub(super) struct Journal {
    path: PathBuf,
    read_to: u64,
    /// How often each number was written.
    counts: Vec<u32>,
    distinct: usize,
}

impl Journal {
    /// A journal that is not read yet. The file need not exist.
    pub(super) fn new(path: PathBuf, items: usize) -> Self {
        Self { path, read_to: 0, counts: vec![0; items], distinct: 0 }
    }

    /// Reads the new lines. Returns the number of different numbers so far.
    pub(super) fn read(&mut self) -> Result<usize> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(self.distinct),
            Err(error) => return Err(error.into()),
        };
        file.seek(SeekFrom::Start(self.read_to))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or("", |end| text.get(..=end).unwrap_or_default());
        self.read_to += whole.len() as u64;
        for line in whole.lines() {
            let number: usize = line.parse().with_context(|| format!("`{line}` is no number"))?;
            let place = number.checked_sub(1).and_then(|index| self.counts.get_mut(index));
            let count = place.with_context(|| format!("there is no item {number}"))?;
            self.distinct += usize::from(*count == 0);
            *count += 1;
        }
        Ok(self.distinct)
    }

    /// How many numbers were written more than once.
    pub(super) fn repeated(&self) -> usize {
        self.counts.iter().filter(|count| **count > 1).count()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn numbers_are_counted_as_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut journal = Journal::new(path.clone(), 12);
        assert_eq!(journal.read().unwrap(), 0);
        fs::write(&path, "1\n2\n1").unwrap();
        assert_eq!(journal.read().unwrap(), 2);
        fs::write(&path, "1\n2\n12\n2\n").unwrap();
        assert_eq!((journal.read().unwrap(), journal.repeated()), (3, 1));
        fs::write(&path, "1\n2\n12\n2\n13\n").unwrap();
        assert!(journal.read().is_err());
    }
}
