package document

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const (
	wordRels = `<Relationships><Relationship Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`
	wordHead = `<?xml version="1.0" encoding="UTF-8"?><w:document xmlns:w="w" xmlns:mc="mc"><w:body>`
	wordTail = `<w:sectPr><w:t>no</w:t></w:sectPr></w:body></w:document>`
)

// docx returns a DOCX with a body, and parts in pairs of a name and a content.
func docx(t testing.TB, body string, parts ...string) []byte {
	t.Helper()
	parts = append([]string{"[Content_Types].xml", "<Types/>", partRels, wordRels, "word/document.xml", wordHead + body + wordTail}, parts...)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		w, err := z.Create(parts[i])
		if err == nil {
			_, err = io.WriteString(w, parts[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func para(text string) string {
	return `<w:p><w:r><w:t xml:space="preserve">` + text + `</w:t></w:r></w:p>`
}

func styled(style, text string) string {
	return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
}

func item(text string) string {
	return `<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
}

func TestDOCX(t *testing.T) {
	t.Parallel()
	cell := func(text string) string { return "<w:tc>" + para(text) + "</w:tc>" }
	for _, c := range []struct{ body, want string }{
		{styled("Title", "T") + styled("Heading2", "H") + para("a ") + para("") + para("b &amp; <![CDATA[c]]>"), "# T\n\n## H\n\na \n\nb & c"},
		{`<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r><w:r><w:t xml:space="preserve"> four</w:t></w:r></w:p>`, "one\ttwo\nthree four"},
		{`<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r><w:t>a</w:t></w:r></w:p>` + para("b"), "a\n\nb"},
		{item("a") + item("b") + para("c"), "- a\n- b\n\nc"},
		{para("x") + "<w:tbl><w:tr>" + cell("a") + cell("b") + "</w:tr><w:tr>" + cell("c") + "<w:tc>" + para("d") + para("e") + "</w:tc></w:tr></w:tbl>" + para("y"), "x\n\na | b\nc | d e\n\ny"},
		{`<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins></w:p>`, "new"},
		{`<w:p><w:r><mc:AlternateContent><mc:Choice><w:t>shown</w:t></mc:Choice><mc:Fallback><w:t>again</w:t></mc:Fallback></mc:AlternateContent></w:r><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>`, "shown"},
	} {
		if d := read(t, File{Data: docx(t, c.body)}); d.Format != "DOCX" || d.Pages[0] != c.want {
			t.Errorf("%s: %q, want %q", c.body, d.Pages, c.want)
		}
	}
	d := read(t, File{Data: docx(t, `<w:p><w:r><w:t>a</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>`, "word/footnotes.xml",
		`<w:footnotes xmlns:w="w"><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote><w:footnote w:id="2">`+para("note")+`</w:footnote></w:footnotes>`)})
	if want := "a[1]\n\n[1] note"; d.Pages[0] != want {
		t.Errorf("a note: %q, want %q", d.Pages, want)
	}
}

func TestBadDOCX(t *testing.T) {
	t.Parallel()
	good := docx(t, para("hello"))
	bomb := docx(t, para(strings.Repeat("<w:i/>", 1<<20)))
	names := `xmlns:a="` + strings.Repeat("a", maxTag*3/4) + `"`
	var notes strings.Builder
	for i := range maxNotes + 1 {
		fmt.Fprintf(&notes, `<w:footnoteReference w:id="%d"/>`, i)
	}
	for _, c := range []struct {
		name string
		data []byte
		kind error
		want string
	}{
		{"cut", good[:len(good)-30], ErrFormat, "a damaged zip"},
		{"no XML", docx(t, "</w:p>"), ErrFormat, "damaged XML in line 1"},
		{"cut XML", docx(t, "<w:p><!--"), ErrFormat, "damaged XML"},
		{"no text", docx(t, para("")), ErrFormat, "it has no text"},
		{"deep", docx(t, strings.Repeat("<w:p>", 2000)), ErrFormat, "elements more than 1000 deep"},
		{"deep, hidden", docx(t, "<w:del>"+strings.Repeat("<w:p>", 2000)), ErrFormat, "elements more than 1000 deep"},
		{"a long tag", docx(t, "<w:p "+strings.Repeat(`a="" `, 1<<20)+"/>"), ErrFormat, "a tag or a text of more than 1 MiB"},
		{"large tags within each other", docx(t, strings.Repeat("<w:p "+names+">", 8)), ErrFormat, "tags of more than 4 MiB within each other"},
		{"large tags side by side", docx(t, strings.Repeat("<w:p "+names+"/>", 20)), ErrFormat, "it has no text"},
		{"many notes", docx(t, notes.String()), ErrSize, "more than 65536 notes"},
		{"a long note", docx(t, `<w:r><w:footnoteReference w:id="`+strings.Repeat("1", 1000)+`"/></w:r>`), ErrSize, "whose id has more than 100 bytes"},
		{"a bomb", bomb, ErrSize, "more than 1 MiB when it is unpacked"},
		{"many files", docx(t, "", manyParts(maxParts)...), ErrSize, "files in a zip"},
	} {
		refused(t, File{Data: c.data}, Limits{Unpacked: 1 << 20 * map[bool]int64{true: 1, false: 32}[c.name == "a bomb"]}, c.kind, c.want)
	}
	if len(bomb) > 1<<16 {
		t.Errorf("a bomb of %d bytes", len(bomb))
	}
	refused(t, File{Data: good, Type: "application/pdf"}, Limits{}, ErrFormat, "declared as application/pdf, and it is DOCX")
	var sheet bytes.Buffer
	z := zip.NewWriter(&sheet)
	for _, name := range []string{"[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"} {
		if _, err := z.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, File{Data: sheet.Bytes()}, Limits{}, ErrFormat, "is not read; want PDF, DOCX, HTML and text")
}

func manyParts(n int) (parts []string) {
	for range n {
		parts = append(parts, "x", "")
	}
	return parts
}

// Memory that a document takes is asked for, and given back.
func TestMemory(t *testing.T) {
	t.Parallel()
	data := docx(t, para("hello"))
	held, most := 0, 0
	reserve := func(n uint64) (func(), error) {
		held++
		most = max(most, held)
		return func() { held-- }, nil
	}
	if _, err := Read(t.Context(), File{Data: data}, Limits{Reserve: reserve}); err != nil || held != 0 || most == 0 {
		t.Errorf("%v, %d held, %d at most", err, held, most)
	}
	none := errors.New("no memory")
	if _, err := Read(t.Context(), File{Data: data}, Limits{Reserve: func(uint64) (func(), error) { return nil, none }}); !errors.Is(err, none) {
		t.Errorf("without memory: %v", err)
	}
}
