package document

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

const (
	bomUTF8    = "\xef\xbb\xbf"
	bomLittle  = "\xff\xfe"
	bomBig     = "\xfe\xff"
	wantedText = "want UTF-8, or UTF-16 with a byte order mark"
)

// looksLikeText reports whether a file has the mark of UTF-16, or no byte that texts of 8 bits have not.
func looksLikeText(data []byte) bool {
	if bytes.HasPrefix(data, []byte(bomLittle)) || bytes.HasPrefix(data, []byte(bomBig)) {
		return true
	}
	controls := 0
	for _, c := range data {
		switch {
		case c == 0:
			return false
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\b' && c != 0x1b:
			controls++
		}
	}
	return controls <= len(data)/100 && (utf8.Valid(data) || mostlyPrinted(data))
}

// mostlyPrinted reports whether a file that is not UTF-8 could be a text in another encoding: most of it is ASCII.
func mostlyPrinted(data []byte) bool {
	high := 0
	for _, c := range data {
		if c >= utf8.RuneSelf {
			high++
		}
	}
	return high <= len(data)*7/10
}

// readPlain reads texts: prose, Markdown, CSV, JSON, programs.
func readPlain(w *work, f *File) ([]string, error) {
	_, charset := mediaType(f)
	if err := w.take(2 * len(f.Data)); err != nil {
		return nil, err
	}
	text, err := decoded(f.Data, charset, "")
	if err != nil {
		return nil, err
	}
	p := pen{w: w}
	err = p.write(lines(text))
	return []string{string(p.text)}, err
}

// lines returns a text whose lines end as Unix has it.
func lines(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// decoded returns a text that may have a mark of its encoding, or a charset that it was declared with. What it is decoded as if it
// has neither and is not UTF-8 is otherwise; empty: that is an error.
func decoded(data []byte, charset, otherwise string) (string, error) {
	s := string(data)
	switch {
	case strings.HasPrefix(s, bomUTF8):
		s, charset = s[len(bomUTF8):], "utf-8"
	case strings.HasPrefix(s, bomLittle):
		return decodeUTF16(data[2:], binary.LittleEndian)
	case strings.HasPrefix(s, bomBig):
		return decodeUTF16(data[2:], binary.BigEndian)
	case charset == "" && !utf8.ValidString(s):
		charset = otherwise
	}
	switch charset {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		if bad := invalid(s); bad >= 0 {
			return "", damaged("the byte %d is not UTF-8; %s", bad, wantedText)
		}
		return s, nil
	case "iso-8859-1", "latin1", "iso8859-1", "windows-1252", "cp1252": // the first is read as the last, as browsers have it
		out, err := charmap.Windows1252.NewDecoder().String(s)
		return out, err
	case "utf-16le":
		return decodeUTF16(data, binary.LittleEndian)
	case "utf-16be", "utf-16":
		return decodeUTF16(data, binary.BigEndian)
	}
	return "", damaged("the charset %.40q is not read; %s", charset, wantedText)
}

// Unmarked returns a text without the mark of its encoding, which editors and shells of Windows begin files with: UTF-16 that has
// one becomes UTF-8. Bytes without a mark stay as they are.
func Unmarked(data []byte) (string, error) {
	for _, mark := range []string{bomUTF8, bomLittle, bomBig} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return decoded(data, "", "")
		}
	}
	return string(data), nil
}

// invalid returns the first byte of a text that is not UTF-8; -1: there is none.
func invalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

func decodeUTF16(data []byte, order binary.ByteOrder) (string, error) {
	if len(data)%2 != 0 {
		return "", damaged("UTF-16 of an odd number of bytes")
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	text := string(utf16.Decode(units))
	if strings.ContainsRune(text, 0) {
		return "", damaged("UTF-16 with zeros in it, which no text has")
	}
	return text, nil
}
