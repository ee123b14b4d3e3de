package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// lookEvery is the number of downloaded bytes between checks of the free disk space, for a file of unknown
// size; at least as many must be free.
const lookEvery = 256 << 20

// unsized downloads a file of unknown size in one request. Nothing is kept if it fails, since no later pull
// could resume it.
func (p *part) unsized(ctx context.Context) error {
	err := p.inOneGo(ctx)
	if err != nil {
		p.discard()
	}
	return err
}

func (p *part) inOneGo(ctx context.Context) error {
	for b := (backoff{least: p.h.c.Backoff}); ; {
		err := p.pour(ctx)
		if err == nil {
			break
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
	if sum := p.f.SHA256; sum != "" && p.sum != sum {
		return fmt.Errorf("the sha256 of what came is %s, want %s; it was removed", p.sum, sum)
	}
	return parses(p.path, p.got.Load())
}

// pour downloads a whole file, unless its first bytes are not a GGUF file's.
func (p *part) pour(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.f.URL, nil)
	if err != nil {
		return err
	}
	res, err := send(p.f.from, req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	a, err := readAnswer(res)
	if err != nil {
		return err
	}
	if !a.whole {
		return errors.New("the server sends a part of the file, want all of it")
	}
	watch := time.AfterFunc(p.h.c.Stall, func() { cancel(errStalled) })
	defer watch.Stop()
	sum, buffer, at := sha256.New(), make([]byte, 128<<10), int64(0)
	checked, looked := false, int64(0)
	for {
		n, err := res.Body.Read(buffer)
		watch.Reset(p.h.c.Stall)
		if n > 0 {
			if at+int64(n) > maxBytes {
				return fmt.Errorf("more than %d bytes", int64(maxBytes))
			}
			if _, err := p.h.writeAt(p.file, buffer[:n], at); err != nil {
				return err
			}
			sum.Write(buffer[:n])
			at += int64(n)
			p.got.Store(at)
		}
		if !checked && (at >= int64(len(magic)) || err == io.EOF) {
			if err := p.magic(); err != nil {
				return err
			}
			checked = true
		}
		if at-looked >= lookEvery {
			if err := p.h.space(lookEvery); err != nil {
				return fmt.Errorf("the server does not say how large the file is: after %.2f GB %w", float64(at)/1e9, err)
			}
			looked = at
		}
		if err == io.EOF {
			p.sum = hex.EncodeToString(sum.Sum(nil))
			return p.file.Sync()
		}
		if err != nil {
			return connection(ctx, err)
		}
	}
}
