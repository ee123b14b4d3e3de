package hub

import (
	"context"
	"fmt"
	"os"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
)

// The head of a GGUF file, its metadata and directory of tensors, is asked for in growing parts: most have their vocabulary
// within the second or third.
const (
	firstHead = 64 << 10
	maxHead   = 256 << 20
)

// head downloads the header of a GGUF file, in growing parts until it is complete.
func (p *part) head(ctx context.Context) error {
	if p.blob != "" || p.f.Size < 0 {
		return nil
	}
	for n := int64(firstHead); ; n *= 8 {
		n = min(n, p.f.Size)
		err := p.first(ctx, n)
		if saved := p.save(); err == nil {
			err = saved
		}
		if err != nil {
			return err
		}
		if err := p.magic(); err != nil {
			return err
		}
		err = parses(p.path, n)
		if err == nil || n == p.f.Size || n >= maxHead {
			return err
		}
	}
}

// magic is the beginning of a GGUF file.
const magic = "GGUF"

// magic returns an error unless the file begins like a GGUF file: the server may have sent a login page.
func (p *part) magic() error {
	b := make([]byte, len(magic))
	if n, _ := p.file.ReadAt(b, 0); string(b[:n]) != magic {
		p.discard()
		return fmt.Errorf("it is no GGUF file: it begins with %q", b[:n])
	}
	return nil
}

// parses returns an error unless the first n bytes of the file at path contain its whole header. Missing
// bytes read as zeros, which are not valid keys and names, so a header that ends after n does not parse.
func parses(path string, n int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r, err := mem.Map(path)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := gguf.Parse(r.Bytes())
	if err != nil {
		return err
	}
	if end := f.DataOffset; end > uint64(n) || end == 0 && n < info.Size() {
		return fmt.Errorf("the head of the file has %d bytes, want at most %d", end, n)
	}
	return nil
}
