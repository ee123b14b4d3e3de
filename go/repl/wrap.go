package repl

import (
	"fmt"
	"strings"

	"github.com/rivo/uniseg"
)

// A wrapper breaks the lines of a text between words, for a terminal, while the text comes in parts. A word that turns out
// too long for the rest of its line is erased there and written again on the next.
type wrapper struct {
	columns func() int // of the terminal, which may be resized; nil: nothing is wrapped
	indent  int        // columns that are left empty after a break
	col     int        // of the cursor
	word    string     // what this line has of the last word
	width   int        // of word
}

// wrap returns what the terminal is sent for the next part of the text, which has no control characters but \n and \t.
func (w *wrapper) wrap(text string) string {
	if w.columns == nil {
		return text
	}
	// The last column stays free: behind a character in it terminals differ in where the cursor is.
	limit := w.columns() - 1
	if limit <= w.indent+1 {
		return text
	}
	var out strings.Builder
	for state := -1; text != ""; {
		var c string
		var width int
		c, text, width, state = uniseg.FirstGraphemeClusterInString(text, state)
		switch c {
		case "\n", "\r\n":
			out.WriteString(c)
			w.begin(0)
			continue
		case "\t":
			width = 8 - w.col%8
		}
		blank := c == " " || c == "\t"
		if w.col+width > limit {
			w.breakLine(&out, blank || width > 1)
			if blank {
				continue // the break stands for it
			}
		}
		out.WriteString(c)
		w.col += width
		if blank || width > 1 { // wide scripts have no blanks: a line may end behind each character
			w.word, w.width = "", 0
		} else {
			w.word += c
			w.width += width
		}
	}
	return out.String()
}

// breakLine goes on in the next line, to which the last word moves, unless it fills a line or ended.
func (w *wrapper) breakLine(out *strings.Builder, ended bool) {
	word, width := w.word, w.width
	if ended || width >= w.col-w.indent {
		word, width = "", 0
	}
	if word != "" {
		fmt.Fprintf(out, "\x1b[%dD\x1b[K", width)
	}
	out.WriteByte('\n')
	out.WriteString(strings.Repeat(" ", w.indent))
	out.WriteString(word)
	w.begin(w.indent + width)
	w.word, w.width = word, width
}

// begin is the begin of a line.
func (w *wrapper) begin(col int) { w.col, w.word, w.width = col, "", 0 }
