package document

import (
	"bytes"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Elements whose text nobody sees.
var unseen = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Svg: true, atom.Iframe: true,
	atom.Object: true, atom.Canvas: true, atom.Datalist: true, atom.Select: true,
}

// Elements that stand on lines of their own.
var blocks = map[atom.Atom]bool{
	atom.Address: true, atom.Article: true, atom.Aside: true, atom.Blockquote: true, atom.Body: true, atom.Caption: true, atom.Dd: true,
	atom.Details: true, atom.Dialog: true, atom.Div: true, atom.Dl: true, atom.Dt: true, atom.Fieldset: true, atom.Figcaption: true,
	atom.Figure: true, atom.Footer: true, atom.Form: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
	atom.Head: true, atom.Header: true, atom.Hr: true, atom.Legend: true, atom.Li: true, atom.Main: true, atom.Nav: true, atom.Ol: true,
	atom.P: true, atom.Pre: true, atom.Section: true, atom.Summary: true, atom.Table: true, atom.Tbody: true, atom.Tfoot: true, atom.Thead: true,
	atom.Title: true, atom.Tr: true, atom.Ul: true, atom.Option: true, atom.Textarea: true,
}

// Blocks with an empty line before and after them.
var apart = map[atom.Atom]bool{
	atom.P: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Pre: true, atom.Table: true,
	atom.Blockquote: true, atom.Title: true, atom.Ul: true, atom.Ol: true, atom.Dl: true, atom.Hr: true,
}

// What begins the line of a block, as Markdown has it.
var marks = map[atom.Atom]string{
	atom.Title: "# ", atom.H1: "# ", atom.H2: "## ", atom.H3: "### ", atom.H4: "#### ", atom.H5: "##### ", atom.H6: "###### ", atom.Li: "- ",
}

var charsetInPage = regexp.MustCompile(`(?i)<meta[^>]{0,200}charset\s*=\s*["']?\s*([a-z0-9_-]{1,40})`)

// maxPageTag bounds tags of pages, which may have pictures in them, and texts: of attributes much more is kept than their bytes.
const maxPageTag = 4 << 20

// readHTML reads what a page shows. It goes by its tags one after the other, without a tree: nothing in a page makes it deep.
func readHTML(w *work, f *File) ([]string, error) {
	_, charset := mediaType(f)
	if m := charsetInPage.FindSubmatch(f.Data[:min(len(f.Data), 1<<10)]); charset == "" && m != nil {
		charset = strings.ToLower(string(m[1]))
	}
	if err := w.take(2 * len(f.Data)); err != nil {
		return nil, err
	}
	text, err := decoded(f.Data, charset, "windows-1252")
	if err != nil {
		return nil, err
	}
	t := &page{flow: flow{pen: pen{w: w}}}
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(maxPageTag)
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := w.goOn(); err != nil {
				return nil, err
			}
		}
		switch z.Next() {
		case html.ErrorToken: // the end, or
			if z.Err() == html.ErrBufferExceeded {
				return nil, tooLarge("a tag or a text between two of more than %d MiB", maxPageTag>>20)
			}
			return []string{t.end()}, t.err
		case html.TextToken:
			t.say(string(z.Text()))
		case html.StartTagToken:
			name, _ := z.TagName()
			t.open(atom.Lookup(name))
		case html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			if t.open(tag); unseen[tag] {
				t.close(tag) // as in SVG, whose tags close themselves
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			t.close(atom.Lookup(name))
		}
		if t.err != nil {
			return nil, t.err
		}
	}
}

// A page is what was read of one.
type page struct {
	flow
	hidden atom.Atom // the element that hides what is in it
	depth  int       // of elements of that name within each other
	pre    int
}

func (p *page) open(tag atom.Atom) {
	switch {
	case p.depth > 0:
		if tag == p.hidden {
			p.depth++
		}
	case unseen[tag]:
		p.hidden, p.depth = tag, 1
	case tag == atom.Br:
		p.breakLine()
	case tag == atom.Td, tag == atom.Th:
		p.cell()
	case blocks[tag]:
		p.block(apart[tag])
		if mark := marks[tag]; mark != "" {
			p.mark = mark
		}
		if tag == atom.Hr {
			p.write("---")
			p.block(true)
		}
		if tag == atom.Pre {
			p.pre++
		}
	}
}

func (p *page) close(tag atom.Atom) {
	switch {
	case p.depth > 0:
		if tag == p.hidden {
			p.depth--
		}
	case blocks[tag]:
		if tag == atom.Pre {
			p.pre = max(p.pre-1, 0)
		}
		p.mark = ""
		p.block(apart[tag])
	}
}

func (p *page) say(text string) {
	if p.depth > 0 {
		return
	}
	if p.pre > 0 {
		p.write(lines(text))
		return
	}
	p.words(text)
}

// A flow puts text into lines, as pages and word processors do: blanks are one, blocks begin lines.
type flow struct {
	pen
	err    error
	gap    int    // line breaks that come before the next text
	space  bool   // a blank does
	mark   string // begins it, as of an item of a list
	inLine bool   // there is text on the line
}

// block ends a line, with an empty one behind it if it is apart. A block that begins a marked one shares its line.
func (f *flow) block(apart bool) {
	f.space, f.inLine = false, false
	switch {
	case f.mark != "":
	case apart:
		f.gap = 2
	default:
		f.gap = max(f.gap, 1)
	}
}

func (f *flow) breakLine() { f.gap, f.space = max(f.gap, 1), false }

// cell begins a cell of a row.
func (f *flow) cell() {
	if f.inLine {
		f.space = true
		f.write("|")
		f.space = true
	}
}

// write adds text as it is behind what comes before it.
func (f *flow) write(text string) {
	if f.err != nil || text == "" {
		return
	}
	switch {
	case len(f.text) == 0:
	case f.gap > 0:
		f.put(strings.Repeat("\n", f.gap))
	case f.space:
		f.put(" ")
	}
	f.put(f.mark)
	f.put(text)
	f.gap, f.space, f.mark, f.inLine = 0, false, "", true
}

func (f *flow) put(text string) {
	if f.err == nil {
		f.err = f.pen.write(text)
	}
}

// words adds text whose blanks are one each.
func (f *flow) words(text string) {
	for text != "" {
		word := strings.TrimLeft(text, " \t\n\r\f\u00a0")
		if len(word) < len(text) && f.gap == 0 && f.inLine {
			f.space = true
		}
		end := strings.IndexAny(word, " \t\n\r\f\u00a0")
		if end < 0 {
			end = len(word)
		}
		f.write(word[:end])
		text = word[end:]
	}
}

// end returns the text.
func (f *flow) end() string { return string(bytes.TrimRight(f.text, " \n\t")) }
