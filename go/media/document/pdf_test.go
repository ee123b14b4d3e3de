package document

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPDF(t *testing.T) {
	t.Parallel()
	file := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("pdf", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	d := read(t, File{Data: file("report.pdf"), Type: "application/pdf"})
	if d.Format != "PDF" || len(d.Pages) != 2 || d.Pages[1] != "Second page" {
		t.Errorf("%+v", d)
	}
	refused(t, File{Data: file("locked-pw.pdf")}, Limits{}, ErrFormat, "PDF: not a document that can be read: encrypted with a password; save it without one")
	refused(t, File{Data: file("report.pdf")}, Limits{Pages: 1}, ErrSize, "more than 1 pages; send a part of them")
	refused(t, File{Data: file("report.pdf")}, Limits{Unpacked: 100}, ErrSize, "when it is unpacked")
	refused(t, File{Data: file("report.pdf")}, Limits{Text: 20}, ErrSize, "too much text")
	refused(t, File{Data: file("report.pdf")}, Limits{Time: time.Nanosecond}, ErrSize, "to read")
	refused(t, File{Data: file("report.pdf"), Type: "text/plain"}, Limits{}, ErrFormat, "declared as text/plain, and it is PDF")
	refused(t, File{Data: []byte("%PDF-1.7\n")}, Limits{}, ErrFormat, "damaged: no pages are found in it")
	refused(t, File{Data: []byte("%PDF-1.7\n1 0 obj << /Pages << /Kids [<< /Type /Page >>] >> >> trailer << /Root 1 0 R >>")}, Limits{}, ErrFormat,
		"it has no text layer, only pictures; send its pages as images")
}

// Whatever a file is, reading it ends, without a panic, within its limits.
func FuzzRead(f *testing.F) {
	for _, kind := range []string{"", "text/html", "text/plain; charset=utf-16", "application/pdf"} {
		f.Add([]byte("<!doctype html><table><tr><td>a<td>b</table><pre>x\r\ny"), kind, "a.html")
		f.Add([]byte("\xff\xfea\x00"), kind, "")
	}
	f.Add(docx(f, item("a")+styled("Heading1", "b")+para("c")), "", "a.docx")
	f.Add([]byte("%PDF-1.7\n1 0 obj << /Pages << /Kids [<< /Type /Page >>] >> >> trailer << /Root 1 0 R >>"), "", "")
	f.Fuzz(func(t *testing.T, data []byte, kind, name string) {
		limits := Limits{Unpacked: 16 << 20, Text: 1 << 16, Pages: 10}
		d, err := Read(t.Context(), File{Data: data, Type: kind, Name: name}, limits)
		if err != nil {
			return
		}
		n := 0
		for _, p := range d.Pages {
			n += len(p)
		}
		if n == 0 || n > limits.Text || len(d.Prompt(name, "")) < n {
			t.Errorf("%d bytes of text", n)
		}
	})
}
