package vocab

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/safetensors"
)

// Vocabularies in files of their own formats, with a token on each line.

// worldFile is the file of RWKV's vocabulary.
const worldFile = "rwkv_vocab_v20230424.txt"

// readWorld reads RWKV's vocabulary. A line has the number of a token from 1 on, the token as a literal of Python, and
// its length in bytes.
func (v *Vocabulary) readWorld(path string) error {
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	v.Model = "rwkv"
	if err := v.put(0, "<s>", Control, 0); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for line := range bytes.Lines(text) {
		line := string(bytes.TrimRight(line, "\r\n"))
		number, rest, _ := strings.Cut(line, " ")
		end := strings.LastIndexByte(rest, ' ')
		id, ok := hf.Digits(number)
		if !ok || end < 0 {
			return fmt.Errorf("%s: %.60q, want a number, a token and its length", path, line)
		}
		token, err := pythonBytes(rest[:end])
		if n, isNumber := hf.Digits(rest[end+1:]); err != nil || !isNumber || n != len(token) {
			return fmt.Errorf("%s: %.60q is no token of as many bytes as it says", path, line)
		}
		if err := v.put(id, bytesLiteral(token), normal, 0); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

var errLiteral = errors.New("no literal of a string or of bytes")

// pythonBytes returns the bytes of a literal of Python, which is a string or bytes.
func pythonBytes(s string) ([]byte, error) {
	s, raw := strings.CutPrefix(s, "b")
	if len(s) < 2 || s[0] != '\'' && s[0] != '"' || s[len(s)-1] != s[0] {
		return nil, errLiteral
	}
	var out []byte
	for s = s[1 : len(s)-1]; s != ""; {
		if s[0] != '\\' {
			out, s = append(out, s[0]), s[1:]
			continue
		}
		if len(s) < 2 {
			return nil, errLiteral
		}
		kind := s[1]
		s = s[2:]
		if i := strings.IndexByte(`ntr\'"abfv0`, kind); i >= 0 {
			out = append(out, "\n\t\r\\'\"\a\b\f\v\x00"[i])
			continue
		}
		n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
		if n == 0 || len(s) < n {
			return nil, errLiteral
		}
		code, err := strconv.ParseUint(s[:n], 16, 32)
		if err != nil {
			return nil, errLiteral
		}
		s = s[n:]
		if raw {
			out = append(out, byte(code))
		} else {
			out = utf8.AppendRune(out, rune(code))
		}
	}
	return out, nil
}

// bytesLiteral spells bytes as in a literal of Python, which is how GGUF has RWKV's tokens.
func bytesLiteral(b []byte) string {
	quoted := bytes.ContainsRune(b, '\'') && bytes.ContainsRune(b, '"')
	var s strings.Builder
	for _, c := range b {
		switch {
		case c == '\\' || c == '\'' && quoted:
			s.WriteByte('\\')
			s.WriteByte(c)
		case c == '\n':
			s.WriteString(`\n`)
		case c == '\r':
			s.WriteString(`\r`)
		case c == '\t':
			s.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}

// jsonLines is the file of PLaMo's vocabulary.
const jsonLines = "tokenizer.jsonl"

// readJSONLines reads PLaMo's vocabulary. A line is a list of a token, its score, its kind and more.
func (v *Vocabulary) readJSONLines(path string) error {
	text, err := safetensors.ReadText(path)
	if err != nil {
		return err
	}
	v.Model, v.pre, v.scores = "plamo2", "default", []float32{}
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var entry []any
		if err := json.Unmarshal(line, &entry); err != nil || len(entry) < 2 {
			return fmt.Errorf("%s: line %d is %.60q, want a list of a token and its score", path, len(v.Tokens)+1, line)
		}
		token, isText := entry[0].(string)
		score, isNumber := entry[1].(float64)
		if !isText || !isNumber {
			return fmt.Errorf("%s: line %d is %.60q, want a list of a token and its score", path, len(v.Tokens)+1, line)
		}
		typ := normal
		if strings.HasPrefix(token, "<|plamo:") && strings.HasSuffix(token, "|>") {
			typ = Control
		}
		if len(entry) > 2 {
			switch entry[2] {
			case "UNKNOWN":
				typ = unknown
			case "CONTROL":
				typ = Control
			case "BYTE":
				typ = byteToken
			}
		}
		if err := v.put(len(v.Tokens), token, typ, float32(score)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
