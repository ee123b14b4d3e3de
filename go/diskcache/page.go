package diskcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// A file is a page: a header of headBytes, then the units, one after the other.
//
//	"quernPG1"   8 bytes
//	key          32 bytes
//	length       uint64, of the units
//	checksum     uint64, XXH64 of all that precedes it and of the units
//
// Numbers are little-endian.
const (
	magic     = "quernPG1"
	headBytes = len(magic) + len(Key{}) + 8 + 8
)

// ErrDamaged reports that a file is not the page that its name says: it was cut, changed, or
// is of another version.
var ErrDamaged = errors.New("damaged page")

// chunk is how much is read before it is hashed and copied, while it is in the CPU's cache. A read that
// nobody waits for any more may still write to the buffer, but not to memory that is somebody else's by then.
const chunk = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// encode writes a page.
func encode(w io.Writer, key Key, units [][]byte) error {
	head := append([]byte(magic), key[:]...)
	head = binary.LittleEndian.AppendUint64(head, uint64(length(units)))
	sum := xxhash.New()
	sum.Write(head)
	for _, u := range units {
		sum.Write(u)
	}
	head = binary.LittleEndian.AppendUint64(head, sum.Sum64())
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, u := range units {
		if _, err := w.Write(u); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the page of a key, from a file of the given size, into units of the size that
// it must have. It allocates nothing by what the file says. Where the file is not that page,
// the error wraps ErrDamaged, and the units may have been written, by copyTo, which reports whether
// they are still there.
func decode(r io.ReaderAt, size int64, key Key, units [][]byte, copyTo func(to, from []byte) bool) error {
	n := length(units)
	if size != int64(headBytes)+n {
		return fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, size, int64(headBytes)+n)
	}
	var head [headBytes]byte
	in := io.NewSectionReader(r, 0, size)
	if err := readFull(in, head[:]); err != nil {
		return err
	}
	body, sum := head[:headBytes-8], xxhash.New()
	want := binary.LittleEndian.AppendUint64(append([]byte(magic), key[:]...), uint64(n))
	if !bytes.Equal(body, want) {
		return fmt.Errorf("%w: it is of another text or version", ErrDamaged)
	}
	sum.Write(body)
	buffer := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buffer)
	for _, u := range units {
		for len(u) > 0 {
			part := buffer[:min(len(u), chunk)]
			if err := readFull(in, part); err != nil {
				return err
			}
			sum.Write(part)
			if !copyTo(u, part) {
				return ErrStuck
			}
			u = u[len(part):]
		}
	}
	if sum.Sum64() != binary.LittleEndian.Uint64(head[headBytes-8:]) {
		return fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	return nil
}

// readFull reads all of b. A file that ends early was cut meanwhile.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it was cut", ErrDamaged)
	}
	return err
}

func length(units [][]byte) (n int64) {
	for _, u := range units {
		n += int64(len(u))
	}
	return n
}
