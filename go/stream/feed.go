package stream

// A Feed reads parts of files in order, ahead of their use, into a few buffers.
type Feed struct {
	reader *Reader
	parts  []Range
	cached func(Range) bool // whether a part need not be read
	slots  []slot
	begun  int // parts whose reads were begun
	used   int // parts that Next has returned
}

// A slot is a buffer, and a channel that reports when its part was read; nil: it is not being read.
type slot struct {
	buf  []byte
	came chan error
}

// FeedBytes returns the memory of so many buffers for these parts.
func FeedBytes(parts []Range, buffers int) int { return buffers * slotBytes(parts) }

func slotBytes(parts []Range) int {
	most := 0
	for _, r := range parts {
		most = max(most, int(r.Off%Align)+r.N)
	}
	return (most + Align - 1) / Align * Align
}

// NewFeed returns a Feed of parts. A part that is cached when its turn comes is not read. The Feed takes
// ownership of the Reader. buf starts at a multiple of Align and has room for at least one buffer.
func NewFeed(r *Reader, parts []Range, buf []byte, cached func(Range) bool) *Feed {
	f := &Feed{reader: r, parts: parts, cached: cached}
	n := slotBytes(parts)
	for ; len(buf) >= n; buf = buf[n:] {
		f.slots = append(f.slots, slot{buf: buf[:n:n]})
	}
	return f
}

// Is reports whether r is the next part.
func (f *Feed) Is(r Range) bool {
	return f.used < len(f.parts) && f.parts[f.used].File == r.File && f.parts[f.used].Off == r.Off && f.parts[f.used].N == r.N
}

// Next waits for the next part and returns it, or nil if it was cached. It is valid until the next call.
func (f *Feed) Next() ([]byte, error) {
	for ; f.begun < min(f.used+len(f.slots), len(f.parts)); f.begun++ {
		f.begin(f.begun)
	}
	s, r := f.slots[f.used%len(f.slots)], f.parts[f.used]
	f.used++
	if s.came == nil {
		return nil, nil
	}
	if err := <-s.came; err != nil {
		return nil, err
	}
	at := int(r.Off % Align)
	return s.buf[at : at+r.N], nil
}

// begin starts to read a part, unless it is cached.
func (f *Feed) begin(i int) {
	s, r := &f.slots[i%len(f.slots)], f.parts[i]
	if s.came = nil; f.cached(r) {
		return
	}
	came := make(chan error, 1)
	s.came = came
	need := int(r.Off%Align) + r.N
	n := (need + Align - 1) / Align * Align
	f.reader.Read(r.File, r.Off/Align*Align, s.buf[:n:n], need, func(err error) { came <- err })
}

// Close waits for the reads in flight, and closes the files.
func (f *Feed) Close() { f.reader.Close() }
