package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// DOCX is a zip of parts in XML (ECMA-376). The text is in the part that _rels/.rels calls the document, notes in two beside it.
var docxFormat = &format{name: "DOCX", read: readDOCX, empty: "it has no text; send what it shows as pictures"}

// maxParts bounds the files in a zip: each has a record in memory before any is read.
const maxParts = 10_000

const partRels = "_rels/.rels"

// wordPart returns the zip of a DOCX and the name of the part with its text; empty: it is another kind of zip.
func wordPart(w *work, data []byte) (z *zip.Reader, name string, err error) {
	if bytes.Count(data, []byte("PK\x01\x02")) > maxParts {
		return nil, "", tooLarge("more than %d files in a zip", maxParts)
	}
	if z, err = zip.NewReader(bytes.NewReader(data), int64(len(data))); err != nil {
		return nil, "", damaged("a damaged zip: %v", err)
	}
	d, err := open(w, z, partRels)
	if d == nil {
		return nil, "", err
	}
	for n := 0; ; n++ {
		t, err := d.Token()
		if n > maxParts {
			return nil, "", tooLarge("more than %d parts", maxParts)
		}
		if err != nil {
			return nil, "", brokenUnlessEnd(w, err)
		}
		one, ok := t.(xml.StartElement)
		if !ok || one.Name.Local != "Relationship" || !strings.HasSuffix(attr(one, "Type"), "/officeDocument") {
			continue
		}
		name := path.Clean(strings.TrimPrefix(attr(one, "Target"), "/"))
		if !strings.HasPrefix(name, "word/") {
			return nil, "", nil
		}
		return z, name, nil
	}
}

// open returns the elements of a part; nil: there is none.
func open(w *work, z *zip.Reader, name string) (*elements, error) {
	for _, f := range z.File {
		if f.Name != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, damaged("the part %.100q: %v", name, err)
		}
		return &elements{d: xml.NewDecoder(&tagged{r: w.counted(r)})}, nil
	}
	return nil, nil
}

// Limits of elements within each other: each takes many times the memory of its tag, and a decoder keeps names and the spaces of
// names of all that are open.
const (
	maxDepth = 1000
	maxOpen  = 4 << 20 // bytes of the tags that are open
	perAttr  = 100     // beside its text
)

// Elements are those of a part, with the bytes of the tags that are open.
type elements struct {
	d    *xml.Decoder
	open []int
	sum  int
}

func (e *elements) Token() (xml.Token, error) {
	token, err := e.d.Token()
	if err != nil {
		return nil, err
	}
	switch tag := token.(type) {
	case xml.StartElement:
		n := len(tag.Name.Space) + len(tag.Name.Local)
		for _, a := range tag.Attr {
			n += perAttr + len(a.Name.Local) + len(a.Value)
		}
		e.open, e.sum = append(e.open, n), e.sum+n
		switch {
		case len(e.open) > maxDepth:
			return nil, damaged("elements more than %d deep", maxDepth)
		case e.sum > maxOpen:
			return nil, damaged("tags of more than %d MiB within each other", maxOpen>>20)
		}
	case xml.EndElement:
		last := len(e.open) - 1
		e.sum -= e.open[last]
		e.open = e.open[:last]
	}
	return token, nil
}

// A tagged reader passes on XML whose tags, and texts between them, are not long: a decoder has each of them in memory, and
// attributes many times their size.
type tagged struct {
	r     io.Reader
	since int // bytes since the last end of a tag
}

const maxTag = 1 << 20

func (t *tagged) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if first := bytes.IndexByte(p[:n], '>'); first < 0 {
		t.since += n
	} else if t.since += first; t.since <= maxTag {
		t.since = n - bytes.LastIndexByte(p[:n], '>')
	}
	if t.since > maxTag {
		return 0, damaged("a tag or a text of more than %d MiB", maxTag>>20)
	}
	return n, err
}

// brokenUnlessEnd is an error of a part; nil: it has ended.
func brokenUnlessEnd(w *work, err error) error {
	var syntax *xml.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, ErrFormat), w.failed != nil:
		return err
	case errors.As(err, &syntax):
		return damaged("damaged XML in line %d: %s", syntax.Line, syntax.Msg)
	}
	return damaged("%v", err)
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func readDOCX(w *work, f *File) ([]string, error) {
	z, name, err := wordPart(w, f.Data)
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return nil, damaged("a zip that is no DOCX; want %s", Formats)
	}
	d, err := open(w, z, name)
	switch {
	case err != nil:
		return nil, err
	case d == nil:
		return nil, damaged("without the part %.100q, which has its text", name)
	}
	t := &story{flow: flow{pen: pen{w: w}}}
	if err := t.read(d); err != nil {
		return nil, err
	}
	for _, notes := range []string{"footnotes", "endnotes"} {
		d, err := open(w, z, path.Dir(name)+"/"+notes+".xml")
		if err != nil {
			return nil, err
		}
		if d != nil {
			t.notes = notes[:1]
			if err := t.read(d); err != nil {
				return nil, err
			}
		}
	}
	return []string{t.end()}, t.err
}

// A story is what was read of a document's text.
type story struct {
	flow
	row     int    // how deep in rows of tables; lines within are cells' then
	cells   int    // of the row so far
	heading string // of the paragraph
	item    bool   // it is one of a list
	before  bool   // so was the one before it
	notes   string // f or e in parts of notes; empty in the text
	note    string // mark of the note that begins
	numbers int    // of notes
	ids     map[string]int
}

// Elements whose content is not shown, or is shown in another way beside it.
func hiddenInWord(name string) bool {
	switch name {
	case "Fallback", "tabs", "instrText", "delText", "del", "moveFrom", "sectPr", "rPr", "pPrChange", "tblPrChange", "object":
		return true
	}
	return false
}

// read adds a part to the text.
func (t *story) read(d *elements) error {
	depth, hidden, inText := 0, 0, 0 // hidden is the depth of an element that hides what is in it
	for {
		token, err := d.Token()
		if err != nil {
			return brokenUnlessEnd(t.w, err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			depth++
			switch name := e.Name.Local; {
			case hidden > 0:
			case hiddenInWord(name):
				hidden = depth
			default:
				if name == "t" {
					inText = depth
				}
				t.start(name, e)
			}
		case xml.EndElement:
			if hidden == 0 {
				t.finish(e.Name.Local)
			}
			if depth == hidden {
				hidden = 0
			}
			if depth == inText {
				inText = 0
			}
			depth--
		case xml.CharData:
			if inText > 0 && hidden == 0 {
				t.say(string(e))
			}
		}
		if t.err != nil {
			return t.err
		}
	}
}

func (t *story) start(name string, e xml.StartElement) {
	switch name {
	case "p":
		t.heading, t.item = "", false
		switch {
		case t.row == 0:
			t.block(t.notes == "")
		case t.inLine:
			t.space = true
		}
		t.mark, t.note = t.note, ""
	case "pStyle":
		t.heading = headingOf(attr(e, "val"))
	case "numPr":
		t.item = true
	case "tab":
		if t.inLine {
			t.put("\t")
		}
	case "br", "cr":
		t.breakLine()
		if t.row > 0 {
			t.gap, t.space = 0, true
		}
	case "noBreakHyphen":
		t.say("-")
	case "tbl":
		if t.row == 0 {
			t.block(true)
		}
	case "tr":
		if t.row++; t.row == 1 {
			t.block(false)
			t.cells = 0
		}
	case "tc":
		if t.cells++; t.cells > 1 {
			t.cell()
		}
	case "footnoteReference", "endnoteReference":
		t.say("[" + t.numbered(name[:1]+attr(e, "id")) + "]")
	case "footnote", "endnote":
		if attr(e, "type") != "" { // a line between the text and notes
			return
		}
		t.note = "[" + t.numbered(t.notes+attr(e, "id")) + "] "
	}
}

func (t *story) finish(name string) {
	switch name {
	case "p":
		t.mark, t.before = "", t.item
		if t.row == 0 {
			t.block(t.notes == "")
		}
	case "tr":
		if t.row--; t.row == 0 {
			t.block(false)
		}
	case "tbl":
		if t.row == 0 {
			t.block(true)
		}
	}
}

// say adds text of a run, whose blanks are as they are.
func (t *story) say(text string) {
	if t.row == 0 && !t.inLine && t.mark == "" {
		if t.mark = t.heading; t.item && t.heading == "" {
			if t.mark = "- "; t.before {
				t.gap = min(t.gap, 1)
			}
		}
	}
	t.flow.write(text)
}

// Limits of notes.
const (
	maxNotes = 1 << 16
	maxID    = 100
)

// numbered is the number of a note: they count in the order in which they are named.
func (t *story) numbered(id string) string {
	if t.ids == nil {
		t.ids = map[string]int{}
	}
	if len(t.ids) >= maxNotes || len(id) > maxID {
		t.err = tooLarge("more than %d notes, or one whose id has more than %d bytes", maxNotes, maxID)
		return ""
	}
	if t.ids[id] == 0 {
		t.numbers++
		t.ids[id] = t.numbers
	}
	return fmt.Sprint(t.ids[id])
}

// headingOf is the mark of a heading by the name of its style, as Markdown has it.
func headingOf(style string) string {
	if style == "Title" {
		return "# "
	}
	level, ok := strings.CutPrefix(strings.ToLower(style), "heading")
	if n, err := strconv.Atoi(level); ok && err == nil && n >= 1 && n <= 9 {
		return strings.Repeat("#", min(n, 6)) + " "
	}
	return ""
}
