package stream

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// Parts come in order and as the file has them, with room for one of them or for many, by whole reads or short ones; those that are cached are
// not read, and a read that fails is an error of its part alone.
func TestFeed(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	f := &faulty{b: make([]byte, 5<<20)}
	for i := range f.b {
		f.b[i] = byte(random.Uint32())
	}
	for _, about := range []int{0, 700_000, 2 << 20, 1 << 30} {
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
			room, err := mem.Alloc(uint64(FeedBytes(parts, about)), "a test")
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
	room, err := mem.Alloc(uint64(FeedBytes(parts, 0)), "a test")
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

// As many parts are on their way as have room, while one is used: small ones too, and behind it those that go round.
func TestFeedReadsAhead(t *testing.T) {
	const large = 64 * Align
	parts := []Range{{N: large}}
	for off := large; off < 1<<20; off += Align {
		parts = append(parts, Range{Off: int64(off), N: Align})
	}
	room, err := mem.Alloc(uint64(FeedBytes(parts, 2*large)), "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	if n := len(room.Bytes()); n != 2*large {
		t.Fatalf("a buffer of %d bytes, want %d", n, 2*large)
	}
	begun := make(chan int64, len(parts)+64)
	r := NewReader(func(_ int, p []byte, off int64) (int, error) {
		begun <- off
		for i := range p {
			p[i] = byte(off/Align) + byte(i/Align)
		}
		return len(p), nil
	})
	feed := NewFeed(r, parts, room.Bytes(), func(Range) bool { return false })
	defer feed.Close()
	total := 0
	for i, part := range parts {
		b, err := feed.Next()
		if err != nil || len(b) != part.N {
			t.Fatalf("part %d: %d bytes, %v", i, len(b), err)
		}
		want := min(65+max(i-1, 0)+min(i, 1)*64, len(parts)) // the large one and 64 others; later 128
		for ; total < want; total++ {
			<-begun
		}
		for at := 0; at < len(b); at += Align {
			if b[at] != byte(int(part.Off)/Align+at/Align) {
				t.Fatalf("part %d was overwritten by another while it was in use", i)
			}
		}
	}
}

// A fetcher reads each byte of its parts once, wherever they begin, in pieces, and those that stay to where they do. What is in
// flight has room in the buffer.
func TestFetcher(t *testing.T) {
	const piece = 10_000
	random := rand.New(rand.NewPCG(3, 3))
	file := make([]byte, 1<<20)
	for i := range file {
		file[i] = byte(random.Uint32())
	}
	var mu sync.Mutex
	asked := make([]int, len(file))
	kept := make([]byte, len(file))
	r := NewFetcher(func(_ int, p []byte, off int64) error {
		if len(p) > piece {
			t.Errorf("%d bytes are asked for at a time", len(p))
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range p {
			asked[int(off)+i]++
		}
		copy(p, file[off:])
		return nil
	}, piece, 4)
	var parts []Range
	for off := 3; off < len(file); {
		n := min(1+random.IntN(50_000), len(file)-off)
		parts = append(parts, Range{Off: int64(off), N: n})
		off += n + random.IntN(3)
	}
	stays := func(r Range) bool { return r.N%3 == 0 }
	room := make([]byte, 120_000)
	feed := NewFeed(r, parts, room, func(Range) bool { return false })
	defer feed.Close()
	feed.Keep(func(r Range) []byte {
		if !stays(r) {
			return nil
		}
		return kept[r.Off:][:r.N:r.N]
	})
	for i, p := range parts {
		b, err := feed.Next()
		if err != nil || !bytes.Equal(b, file[p.Off:p.Off+int64(p.N)]) {
			t.Fatalf("part %d is not what the file has, %v", i, err)
		}
		if stays(p) != (&b[0] == &kept[p.Off]) {
			t.Errorf("part %d is elsewhere", i)
		}
		before := 0 // bytes asked for that no part that was returned has
		mu.Lock()
		for at := int(p.Off) + p.N; at < len(file); at++ {
			before += asked[at]
		}
		mu.Unlock()
		if before > len(room) {
			t.Errorf("after part %d %d bytes are read ahead", i, before)
		}
	}
	for _, p := range parts {
		for at := range p.N {
			if n := asked[int(p.Off)+at]; n != 1 {
				t.Fatalf("byte %d was asked for %d times", int(p.Off)+at, n)
			}
		}
	}
}
