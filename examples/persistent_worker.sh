#!/bin/sh
# Answers every item with the length of its text.
echo '{"type":"hello","version":1}' >&4
while read -r line <&3; do
    case $line in
    *'"type":"item"'*)
        id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        item=$(echo "$line" | sed 's/.*"item":"\([^"]*\)".*/\1/')
        echo "{\"type\":\"done\",\"id\":$id,\"output\":\"${#item}\"}" >&4
        ;;
    esac
done
