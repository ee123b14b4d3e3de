package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/synth"
)

// Open opens a model of the table: the demo, the encoder of the one that sees, or random weights as "tiny:Q4_0" names
// them (see synth.ParseShape). The function close releases its memory.
func Open(ctx context.Context, name string) (f *model.File, free func(), err error) {
	switch name {
	case demo.Name:
		f, err = model.OpenBytes(name, demo.GGUF())
		return f, func() {}, err
	case demoEyes:
		f, err = model.OpenBytes(name, demo.Projector(demo.Vision))
		return f, func() {}, err
	}
	m, err := synth.ParseShape(name)
	if err != nil {
		return nil, nil, err
	}
	var file bytes.Buffer
	if _, err := m.Write(ctx, &file); err != nil {
		return nil, nil, err
	}
	// C keeps its addresses, so it lies outside the Go heap.
	r, err := mem.Alloc(uint64(file.Len()), "a model of random weights")
	if err != nil {
		return nil, nil, err
	}
	copy(r.Bytes(), file.Bytes())
	f, err = model.OpenBytes(name, r.Bytes()[:file.Len()])
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return f, func() { r.Close() }, nil
}

// fileHash returns the SHA-256 of a model: of its file, or of the hashes of its
// shards, one after the other.
func fileHash(f *model.File) string {
	var each []string
	for _, b := range f.Shards() {
		sum := sha256.Sum256(b)
		each = append(each, hex.EncodeToString(sum[:]))
	}
	if len(each) == 1 {
		return each[0]
	}
	sum := sha256.Sum256([]byte(strings.Join(each, "")))
	return hex.EncodeToString(sum[:])
}

// checkFile checks that the model's file is the one of a row.
func (r *Row) checkFile(f *model.File) error {
	if got := fileHash(f); got != r.File {
		return fmt.Errorf("%s: its file has the hash %s, want %s", r.Model, got, r.File)
	}
	return nil
}
