package pdf

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A writer makes text of glyphs and their places. They come in the order of the content, in which nearly all programs write
// what is to be read: columns are not torn apart so, as they would be by sorting. Gaps between glyphs are blanks, and steps
// across the line end it.
type writer struct {
	f       *file
	left    int // bytes of text that may still be
	out     []byte
	begun   bool
	x, y    float64 // where the last glyph ends
	known   int     // glyphs
	unknown int     // glyphs of which no character is known
	marks   []bool  // of content that is marked: whether its text is said elsewhere
	instead string  // that text, until it is written
	hidden  int     // how many of the marks say so
	steps   int     // operators and glyphs so far
}

var tooLong = LargeError(fmt.Sprintf("a page of more than %d MiB", maxStream>>20))

func tooMany(pages int) error {
	return LargeError(fmt.Sprintf("more than %d pages; send a part of them", pages))
}

// maxMarks bounds marked content within each other.
const maxMarks = 256

// mark begins marked content; with a text in place of it, if there is one.
func (w *writer) mark(says string, ok bool) {
	if len(w.marks) > maxMarks {
		ok = false
	}
	w.marks = append(w.marks, ok)
	if ok {
		if w.hidden++; w.hidden == 1 {
			w.instead = says
		}
	}
}

func (w *writer) unmark() {
	n := len(w.marks)
	if n == 0 {
		return
	}
	if w.marks[n-1] {
		w.hidden--
		w.instead = ""
	}
	w.marks = w.marks[:n-1]
}

// Steps from one glyph to the next, in ems.
const (
	gapOfWords  = 0.17
	stepOfLines = 0.5 // across the line; indices and powers stay on it
	stepApart   = 1.8 // of lines with an empty one between
	backwards   = 1.0
)

// put writes the characters of a glyph, which stands between two places, of a font of that size.
func (w *writer) put(chars string, from, to matrix, size float64) error {
	if chars == "" {
		w.unknown++
		chars = string(utf8.RuneError)
	} else {
		w.known++
	}
	if w.hidden > 0 {
		if chars = w.instead; chars == "" {
			w.x, w.y = to[4], to[5]
			return nil
		}
		w.instead = ""
	}
	em := math.Abs(size) * math.Hypot(from[2], from[3])
	dx, dy := to[4]-from[4], to[5]-from[5]
	if length := math.Hypot(dx, dy); length > 0 {
		dx, dy = dx/length, dy/length
	} else {
		dx, dy = 1, 0
	}
	if w.begun && em > 0 {
		along := ((from[4]-w.x)*dx + (from[5]-w.y)*dy) / em
		across := math.Abs((from[5]-w.y)*dx-(from[4]-w.x)*dy) / em
		switch {
		case across > stepApart:
			w.breakLine(2)
		case across > stepOfLines, along < -backwards:
			w.breakLine(1)
		case along > gapOfWords:
			w.blank()
		}
	}
	w.begun, w.x, w.y = true, to[4], to[5]
	if len(w.out)+len(chars) > w.left {
		return LargeError("too much text; send a part of its pages")
	}
	if strings.TrimSpace(chars) == "" {
		w.blank()
		return nil
	}
	w.out = append(w.out, chars...)
	return nil
}

// blank ends a word.
func (w *writer) blank() {
	if n := len(w.out); n > 0 && w.out[n-1] != ' ' && w.out[n-1] != '\n' {
		w.out = append(w.out, ' ')
	}
}

// breakLine ends a line, with line breaks of that number.
func (w *writer) breakLine(n int) {
	end := len(w.out)
	for end > 0 && w.out[end-1] == ' ' {
		end--
	}
	w.out = w.out[:end]
	has := 0
	for has < end && w.out[end-1-has] == '\n' {
		has++
	}
	for ; has < n && end > 0; has++ {
		w.out = append(w.out, '\n')
	}
}

// text returns what was written.
func (w *writer) text() string { return strings.TrimRightFunc(string(w.out), unicode.IsSpace) }
