package document

import (
	"errors"

	"github.com/quern-llm/quern/go/media/document/pdf"
)

var pdfFormat = &format{name: "PDF", read: readPDF, empty: "it has no text layer, only pictures; send its pages as images", paged: true}

// readPDF reads the text layer of a PDF.
func readPDF(w *work, f *File) ([]string, error) {
	pages, err := pdf.Text(f.Data, pdf.Limits{Pages: w.limits.Pages, Text: w.limits.Text, Unpack: w.take})
	var large pdf.LargeError
	var bad pdf.Error
	switch {
	case errors.As(err, &large):
		return nil, tooLarge("%s", large)
	case errors.As(err, &bad):
		return nil, damaged("%s", bad)
	}
	return pages, err
}
