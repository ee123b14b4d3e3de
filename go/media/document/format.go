package document

import (
	"bytes"
	"mime"
	"path"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// A format is one kind of document.
type format struct {
	name  string
	read  func(w *work, f *File) (pages []string, err error)
	empty string // why there may be no text
	paged bool
}

var (
	plainFormat = &format{name: "text", read: readPlain, empty: "an empty document"}
	htmlFormat  = &format{name: "HTML", read: readHTML, empty: "a page without text; send what it shows as text"}
)

// A family is what a declared type says.
type family int

const (
	unknown family = iota // or any: bytes decide
	texts
	hyper
	pdfs
	words
	media // pictures, sounds and videos
)

// declared returns what a media type says.
func declared(kind string) family {
	top, sub, _ := strings.Cut(kind, "/")
	switch {
	case kind == "text/html", kind == "application/xhtml+xml":
		return hyper
	case kind == "application/pdf", kind == "application/x-pdf":
		return pdfs
	case sub == "vnd.openxmlformats-officedocument.wordprocessingml.document":
		return words
	case top == "text", strings.HasSuffix(sub, "+json"), strings.HasSuffix(sub, "+xml") && top != "image":
		return texts
	case top == "image", top == "audio", top == "video":
		return media
	}
	switch sub {
	case "json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "typescript", "x-sh", "sql", "x-ndjson", "jsonl", "csv", "markdown", "x-tex":
		return texts
	}
	return unknown
}

// mediaType returns the type that a file was declared with, in lower case and without parameters, and its charset.
func mediaType(f *File) (kind, charset string) {
	kind, params, err := mime.ParseMediaType(f.Type)
	if err != nil && kind == "" {
		kind, _, _ = strings.Cut(f.Type, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind, strings.ToLower(params["charset"])
}

// Is reports whether a file is a document of a format that is read, or may be one: a text, a PDF or a DOCX. It does not say that it is
// whole.
func Is(data []byte) bool {
	return isPDF(data) || isZip(data) || isOLE(data) || looksLikeText(data)
}

// pdfHead is where the mark of a PDF has to be, as readers have it.
const pdfHead = 1 << 10

// isPDF reports whether a file begins with the mark of a PDF, or has it near to its beginning and is no text: that may be about PDF.
func isPDF(data []byte) bool {
	at := bytes.Index(data[:min(len(data), pdfHead)], []byte("%PDF-"))
	return at >= 0 && (len(bytes.TrimSpace(data[:at])) == 0 || !looksLikeText(data))
}

func isZip(data []byte) bool { return bytes.HasPrefix(data, []byte("PK\x03\x04")) }
func isOLE(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"))
}

// isWord reports whether a zip names the part that a DOCX has.
func isWord(data []byte) bool {
	return bytes.Contains(data, []byte(partRels)) && bytes.Contains(data, []byte("word/"))
}

// formatOf returns the format of a file by what is in it. A declared type that says otherwise is an error: one of both is a
// mistake.
func formatOf(f *File) (*format, error) {
	kind, _ := mediaType(f)
	says := declared(kind)
	agrees := func(is *format, of family) (*format, error) {
		if says != unknown && says != of {
			return nil, damaged("declared as %.100s, and it is %s: want the type that it has, or none", kind, is.name)
		}
		return is, nil
	}
	switch {
	case len(f.Data) == 0:
		return nil, damaged("an empty file; want %s", Formats)
	case isPDF(f.Data):
		return agrees(pdfFormat, pdfs)
	case isOLE(f.Data):
		return nil, damaged("an Office file of the old format, or with a password; save it as DOCX without one")
	case isZip(f.Data) && isWord(f.Data):
		return agrees(docxFormat, words)
	case isZip(f.Data), !looksLikeText(f.Data):
		return nil, damaged("%.100s is not read; want %s", typeOf(f.Data), Formats)
	}
	if says == hyper || says == unknown && isHTML(f) {
		return agrees(htmlFormat, hyper)
	}
	return agrees(plainFormat, texts)
}

// isHTML reports whether a text is a page: by its name, or if that says nothing, by how it begins.
func isHTML(f *File) bool {
	switch strings.ToLower(path.Ext(f.Name)) {
	case ".html", ".htm", ".xhtml":
		return true
	case "":
		return mimetype.Detect(f.Data).Is("text/html")
	}
	return false
}

// typeOf is the type of a file that is not read, as far as it is known.
func typeOf(data []byte) string {
	kind, _, _ := strings.Cut(mimetype.Detect(data).String(), ";")
	if kind == "application/octet-stream" || strings.HasPrefix(kind, "text/") {
		return "a file of an unknown type"
	}
	return "a file of the type " + kind
}
