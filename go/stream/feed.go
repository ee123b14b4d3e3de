package stream

// A Feed reads parts of files in order, ahead of their use, into a ring buffer. Reads are in flight for as many
// parts as fit there, so that small parts keep a disk as busy as large ones.
type Feed struct {
	reader *Reader
	parts  []Range
	cached func(Range) bool   // whether a part need not be read
	keep   func(Range) []byte // see Keep
	buf    []byte
	begun  []expected // parts, from the one that Next returned last
	used   int        // parts that Next has returned
}

// An expected part has n bytes of the buffer, and a channel that reports when it was read; nil: it is cached.
type expected struct {
	at, n int
	came  chan error
	kept  []byte // where it is read to in place of the buffer, whose bytes bound how much is in flight; nil: nowhere
}

// FeedBytes returns the size of a buffer for these parts: about so many bytes, but at most what all of them
// need, and at least what the largest needs.
func FeedBytes(parts []Range, about int) int {
	most, all := 0, 0
	for _, r := range parts {
		n := aligned(r, Align)
		most, all = max(most, n), all+n
	}
	return max(most, min(about/Align*Align, all))
}

// aligned returns the size of the blocks that contain a part.
func aligned(r Range, to int) int { return (int(r.Off%int64(to)) + r.N + to - 1) / to * to }

// NewFeed returns a Feed of parts. A part that is cached when its turn comes is not read. The Feed takes
// ownership of the Reader. buf starts at a multiple of Align and has room for the largest part (see FeedBytes).
func NewFeed(r *Reader, parts []Range, buf []byte, cached func(Range) bool) *Feed {
	return &Feed{reader: r, parts: parts, cached: cached, buf: buf}
}

// Keep has parts of a fetcher read to where they stay. keep returns that place, or nil for a part that passes through the
// buffer.
func (f *Feed) Keep(keep func(Range) []byte) { f.keep = keep }

// Is reports whether r is the next part.
func (f *Feed) Is(r Range) bool {
	return f.used < len(f.parts) && f.parts[f.used].File == r.File && f.parts[f.used].Off == r.Off && f.parts[f.used].N == r.N
}

// Next waits for the next part and returns it, or nil if it was cached. It is valid until the next call.
func (f *Feed) Next() ([]byte, error) {
	if f.used > 0 {
		f.begun = f.begun[1:]
	}
	for next := f.used + len(f.begun); next < len(f.parts) && f.begin(f.parts[next]); next++ {
	}
	c, r := f.begun[0], f.parts[f.used]
	f.used++
	if c.came == nil {
		return nil, nil
	}
	if err := <-c.came; err != nil {
		return nil, err
	}
	if c.kept != nil {
		return c.kept, nil
	}
	from := c.at + int(r.Off%int64(f.reader.align))
	return f.buf[from : from+r.N], nil
}

// begin starts to read a part, unless it is cached. It reports whether there was room for it.
func (f *Feed) begin(r Range) bool {
	to := int64(f.reader.align)
	c := expected{n: aligned(r, int(to))}
	at, ok := f.place(c.n)
	if !ok {
		return false
	}
	if f.cached(r) {
		f.begun = append(f.begun, expected{})
		return true
	}
	came := make(chan error, 1)
	c.at, c.came = at, came
	buf := f.buf[at : at+c.n : at+c.n]
	if f.keep != nil {
		if c.kept = f.keep(r); c.kept != nil {
			buf = c.kept
		}
	}
	f.begun = append(f.begun, c)
	f.reader.Read(r.File, r.Off/to*to, buf, int(r.Off%to)+r.N, func(err error) { came <- err })
	return true
}

// place returns where n contiguous bytes of the buffer are free: after the part that was begun last, or at the start.
func (f *Feed) place(n int) (at int, ok bool) {
	first, end := -1, 0
	for _, c := range f.begun {
		if c.came == nil {
			continue
		}
		if first < 0 {
			first = c.at
		}
		end = c.at + c.n
	}
	switch {
	case first < 0:
		return 0, n <= len(f.buf)
	case end <= first: // wrapped around
		return end, n <= first-end
	case n <= len(f.buf)-end:
		return end, true
	}
	return 0, n <= first
}

// Close waits for the reads in flight, and closes the files.
func (f *Feed) Close() { f.reader.Close() }
