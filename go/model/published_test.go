package model

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// Files of published models are taken as they are, and one that lacks a tensor of the last layer,
// or has one more, is refused.
func TestPublished(t *testing.T) {
	for _, p := range slices.Concat(publishedModels, publishedKin(), publishedDeltas(), publishedGemma, publishedScans(), publishedRWKV(), publishedLatents(), publishedEncoders, publishedOthers, publishedGates()) {
		t.Run(p.name, func(t *testing.T) {
			next, _ := p.keys["nextn_predict_layers"].(uint32)
			norm := "attn_norm"
			if slices.Contains([]string{"olmo", "talkie", "hrm_text"}, p.arch) { // whose norms have nothing in files
				norm = "attn_output"
			} else if !strings.Contains(p.tensors, " attn_norm ") {
				norm = "attn_output_norm"
			} else if p.arch == "modern-bert" { // a layer may have none
				norm = "ffn_norm"
			}
			if p.arch == "t5" {
				norm = "cross_attn_norm"
			}
			last := fmt.Sprintf("%sblk.%d.%s.weight", p.stem(), p.layers-int(next)-1, norm)
			for _, tt := range []struct{ without, with, want string }{
				{}, {without: last, want: last}, {with: "blk.0.ffn_other.weight", want: "blk.0.ffn_other.weight"},
			} {
				f, err := OpenFile(p.write(t, tt.without, tt.with))
				if err != nil {
					t.Fatal(err)
				}
				for _, kv := range []kernel.KVTypes{kvF32, {K: kernel.KVI16, V: kernel.KVI16}} {
					s, err := NewSurvey(f, kv, 0)
					if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), strconv.Quote(tt.want))) {
						t.Errorf("without %q, with %q: error %v", tt.without, tt.with, err)
					}
					if err == nil && strings.Contains(p.tensors, "nextn.eh_proj") {
						if _, err := s.Drafting(); err != nil {
							t.Errorf("its last layer does not draft: %v", err)
						}
					}
					if tt.want == "" && err == nil && !p.check(s.Config) {
						t.Errorf("configuration is not that of %s, layer 0 is %+v", p.name, s.Config.Layers[0])
					}
				}
				f.Close()
			}
		})
	}
}

// stem is what stands before blk in the names of its tensors.
func (p published) stem() string {
	switch p.arch {
	case "t5encoder":
		return "enc."
	case "t5": // those of the encoder are listed by themselves
		return "dec."
	}
	return ""
}

// write writes the file, with nothing in its tensors, and returns its path.
func (p published) write(t *testing.T, without, with string) string {
	w := gguf.NewWriter()
	w.Set("general.architecture", p.arch)
	w.Set(p.arch+".block_count", u32(p.layers))
	for k, v := range p.keys {
		if name, ok := strings.CutPrefix(k, "/"); ok {
			w.Set(name, v)
		} else {
			w.Set(p.arch+"."+k, v)
		}
	}
	add := func(name string, dims []uint64) {
		if name == without {
			return
		}
		typ := gguf.F32
		if len(dims) > 1 && !strings.HasSuffix(name, ".bias") {
			typ = gguf.F16
		}
		if strings.Contains(name, "tid2eid") { // of integers
			typ = gguf.I32
		}
		size, err := typ.Size(dims)
		if err != nil {
			t.Fatal(err)
		}
		w.AddTensor(name, typ, dims, func(w io.Writer) error { return zeros(w, size) })
	}
	for _, line := range strings.Split(strings.TrimSpace(p.tensors), "\n") {
		fields := strings.Fields(line)
		name, bare := strings.CutSuffix(fields[1], "!")
		if !bare && !strings.HasSuffix(name, ".bias") && !strings.HasSuffix(name, ".scale") {
			name += ".weight"
		}
		var dims []uint64
		for _, s := range fields[2:] {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			dims = append(dims, n)
		}
		if fields[0] == "-" {
			add(name, dims)
			continue
		}
		for il := range p.layers {
			if within(t, fields[0], il) {
				add(fmt.Sprintf("%sblk.%d.%s", p.stem(), il, name), dims)
			}
		}
	}
	if with != "" {
		add(with, []uint64{32})
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := w.WriteTo(sparse{f})
	if err == nil {
		err = f.Truncate(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// within reports whether a layer is among "*", "from:to", "from::step" or "from:to:step".
func within(t *testing.T, layers string, il int) bool {
	bounds := [3]int{0, 1 << 20, 1}
	for i, s := range strings.Split(strings.TrimSuffix(layers, "*"), ":") {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || i >= len(bounds) {
			t.Fatalf("layers %q", layers)
		}
		bounds[i] = n
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	return il >= from && il < to && (il-from)%step == 0
}

var zero [64 << 20]byte

func zeros(w io.Writer, n uint64) error {
	for n > 0 {
		part := min(n, uint64(len(zero)))
		if _, err := w.Write(zero[:part]); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// A sparse file has a hole where parts of zero are written.
type sparse struct{ f *os.File }

func (s sparse) Write(p []byte) (int, error) {
	if len(p) > 0 && &p[0] == &zero[0] {
		_, err := s.f.Seek(int64(len(p)), io.SeekCurrent)
		return len(p), err
	}
	return s.f.Write(p)
}
