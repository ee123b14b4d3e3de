package stream

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// Parts come in order and as the file has them, with few buffers or many, by whole reads or short ones; those that are cached are
// not read, and a read that fails is an error of its part alone.
func TestFeed(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	f := &faulty{b: make([]byte, 5<<20)}
	for i := range f.b {
		f.b[i] = byte(random.Uint32())
	}
	for _, buffers := range []int{1, 2, 5} {
		for _, short := range []bool{false, true} {
			f.short.Store(short)
			var parts []Range
			for off := 0; off < len(f.b); {
				n := min(1+random.IntN(300000), len(f.b)-off)
				parts = append(parts, Range{Off: int64(off), N: n})
				if off += n; random.IntN(3) == 0 { // others leave gaps, or are read again
					off = min(max(off+random.IntN(9000)-4000, 0), len(f.b))
				}
			}
			room, err := mem.Alloc(uint64(FeedBytes(parts, buffers)), "a test")
			if err != nil {
				t.Fatal(err)
			}
			feed := NewFeed(NewReader(f.read), parts, room.Bytes(), func(r Range) bool { return r.N%5 == 0 })
			for i, r := range parts {
				if other := (Range{Off: r.Off + 1, N: r.N}); !feed.Is(r) || feed.Is(other) {
					t.Errorf("part %d is not the next", i)
				}
				switch b, err := feed.Next(); {
				case err != nil:
					t.Fatal(err)
				case b == nil != (r.N%5 == 0) || b != nil && !bytes.Equal(b, f.b[r.Off:r.Off+int64(r.N)]):
					t.Fatalf("part %d of %d bytes is not what the file has", i, r.N)
				}
			}
			if feed.Is(parts[0]) {
				t.Error("there is a part after the last")
			}
			feed.Close()
			room.Close()
		}
	}
	f.short.Store(false)
	f.fail.Store(1)
	parts := []Range{{Off: 0, N: 100}, {Off: 5000, N: 100}, {Off: int64(len(f.b)) - 50, N: 100}, {Off: 9000, N: 100}}
	room, err := mem.Alloc(uint64(FeedBytes(parts, 1)), "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	feed := NewFeed(NewReader(f.read), parts, room.Bytes(), func(Range) bool { return false })
	defer feed.Close()
	for i := range parts {
		_, err := feed.Next()
		if i == 0 && !errors.Is(err, syscall.EIO) || (i == 2) != (err != nil && i > 0) {
			t.Errorf("part %d: %v", i, err)
		}
	}
}
