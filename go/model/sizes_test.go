package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// spreadOut writes the model of a file to another in which every other tensor lies more than n bytes behind where it was, with
// nothing between.
func spreadOut(t *testing.T, path string, n uint64) string {
	t.Helper()
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(image)
	if err != nil {
		t.Fatal(err)
	}
	head := slices.Clone(image[:f.DataOffset])
	out, err := os.Create(filepath.Join(t.TempDir(), "spread.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for i, x := range f.Tensors {
		info := binary.LittleEndian.AppendUint64(nil, uint64(len(x.Name)))
		info = append(info, x.Name...)
		info = binary.LittleEndian.AppendUint32(info, uint32(len(x.Dims)))
		for _, d := range x.Dims {
			info = binary.LittleEndian.AppendUint64(info, d)
		}
		info = binary.LittleEndian.AppendUint32(info, uint32(x.Type))
		at := bytes.Index(head, info)
		if at < 0 || binary.LittleEndian.Uint64(head[at+len(info):]) != x.Offset-f.DataOffset {
			t.Fatalf("the header has no %s", x.Name)
		}
		to := x.Offset
		if i%2 == 1 {
			to += n
		}
		binary.LittleEndian.PutUint64(head[at+len(info):], to-f.DataOffset)
		if _, err := out.WriteAt(x.Data, int64(to)); errors.Is(err, unix.EFBIG) {
			t.Skipf("this file system has no files of %s", mem.FormatBytes(to))
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := out.WriteAt(head, 0); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// A file of more than a terabyte, most of which is holes, is read where its tensors are and nowhere else: packed, mapped and
// streamed, with the bits of the file that it was, in the memory that a test has (load).
func TestFileOfATerabyte(t *testing.T) {
	for _, path := range []string{filepath.Join(golden, "tiny-llama-mixed.gguf"), testdata.Path(t, "archs/qwen3moe.gguf")} {
		base, err := load(t, path, Packed)
		if err != nil {
			t.Fatal(err)
		}
		ids := []int32{5, 30, 17, 22, 9, 41, 3}
		want := logits(t, base, ids)
		large := spreadOut(t, path, 1<<40)
		for _, how := range []Residency{Packed, Mapped, Streamed} {
			m, err := load(t, large, how)
			if err != nil {
				t.Fatalf("%v: %v", how, err)
			}
			if m.file.Size() < 1<<40 {
				t.Fatalf("the file has %d bytes", m.file.Size())
			}
			got := logits(t, m, ids)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("%v: logits of token %d differ", how, i)
				}
			}
			if st, ok := m.Stream(); ok && st.Read > 2*st.Bytes {
				t.Errorf("%s were read of %s of weights", mem.FormatBytes(st.Read), mem.FormatBytes(st.Bytes))
			}
		}
	}
}

// Keys and values of a million positions, of many layers: a batch reads and writes units whose bytes are beyond 2^31 and
// 2^32, in a region of which only they are there.
func TestMillionPositions(t *testing.T) {
	const positions = 1 << 20
	m, err := load(t, testdata.Path(t, "archs/qwen2.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	first := newStepper(t, m, 64)
	ids := []int32{5, 30, 17, 22, 9, 41, 3}
	want := first.step(t, ids)

	size := m.Layout[0].Bytes
	blocks := positions / kernel.KVBlock
	layout := kvcache.NewLayout(kvcache.Group{Name: "a large model", Bytes: 126 * kernel.KVBytes(kvI16, 8, 128, 128)})
	if n := layout.Bytes(positions); n != uint64(blocks)*126*(8*64*(2*128*2+8)) || n < 1<<38 {
		t.Errorf("%d bytes of keys and values", n)
	}
	units := 1<<33/size + 1
	space, err := mem.Space(uint64(units)*uint64(size), "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	b := first.r.Batch()
	for _, unit := range []int{1<<31/size + 1, 1<<32/size + 1, units - 1} {
		b.SetState(0, space.Bytes(), size)
		b.Reset()
		b.AddSeq([]int32{int32(unit)})
		var rows []int32
		for i, id := range ids {
			b.Add(id, int32(i))
			rows = append(rows, int32(i))
		}
		if err := first.r.Forward(nil, nil); err != nil {
			t.Fatal(err)
		}
		first.r.Head(rows)
		for i := range rows {
			if !slices.Equal(first.r.Logits(i), want[i]) {
				t.Fatalf("unit %d, %d bytes behind the first: logits of token %d differ", unit, unit*size, i)
			}
		}
	}
	if n := inMemory(t, space.Bytes()); n == 0 || n > 3*(size+2*os.Getpagesize()) {
		t.Errorf("%d bytes of the units are in memory, 3 of them have %d", n, 3*size)
	}
}

// inMemory returns how many bytes of b, which begins on a page, have memory.
func inMemory(t *testing.T, b []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	pages := make([]byte, (len(b)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p&1) * page
	}
	return n
}

// A batch has tables for contexts of a million positions, of many sequences.
func TestBatchOfMillionPositions(t *testing.T) {
	b, err := kernel.NewBatch(8, 1000, 1<<20/kernel.KVBlock, 8, []kernel.Group{{Name: "all", Bytes: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := kernel.NewBatch(8, 1<<20, 1<<20, 8, []kernel.Group{{Name: "all", Bytes: 64}}); err == nil {
		t.Error("a table of 2^40 units was allocated")
	}
}

// Rows of logits that are 2^28 columns apart, so that the last of ten begin beyond 2^31 floats and 2^33 bytes, as those of a
// long text over a large vocabulary do, are the same bits. Most of the memory is never touched.
func TestLogitsBeyond32Bits(t *testing.T) {
	const tokens = 10
	for _, path := range []string{filepath.Join(golden, "tiny-llama-mixed.gguf"), testdata.Path(t, "archs/qwen3moe.gguf")} {
		m, err := load(t, path, Packed)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int32, tokens)
		for i := range ids {
			ids[i] = int32(i*7919%(m.Config.NVocab-1) + 1)
		}
		want := newStepper(t, m, tokens).step(t, ids)
		s := newStepper(t, m, tokens)
		widenLogits(t, s.r, 1<<28, tokens)
		for i, row := range s.step(t, ids) {
			if !slices.Equal(row, want[i]) {
				t.Fatalf("%s: logits of token %d differ", filepath.Base(path), i)
			}
		}
	}
}

// widenLogits gives the rows of logits of a runner so many columns.
func widenLogits(t *testing.T, r *Runner, columns, tokens int) {
	t.Helper()
	p := *r.program
	p.Bufs = slices.Clone(p.Bufs)
	for _, o := range p.Outputs {
		if o.Name == nn.Logits {
			p.Bufs[o.Buf].Width = columns
		}
	}
	room := kernel.Room{Tok: tokens, Out: tokens}
	space, err := mem.Space(uint64(kernel.BufBytes(p.Bufs, room)), "a test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { space.Close() })
	if r.plans, err = newPlans(&p, r.weights); err != nil {
		t.Fatal(err)
	}
	r.bufs.Close()
	if r.bufs, err = kernel.NewBuffers(p.Bufs, room, space.Bytes()); err != nil {
		t.Fatal(err)
	}
	r.program = &p
}
