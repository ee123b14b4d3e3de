package constrain

// maxForced is the number of bytes that a forecast looks ahead: some 16 tokens, which take a pass about as
// long as one.
const maxForced = 64

// Forecast implements Forecaster. The last token is omitted unless the text ends there, since it may merge
// with the following text.
func (t *text) Forecast(dst []int32) []int32 {
	a := t.a
	if a.v.Encode == nil {
		return dst
	}
	forced, ends := t.forced()
	if len(forced) < 2 {
		return dst
	}
	ids := a.v.Encode(forced)
	if !ends && len(ids) > 0 {
		ids = ids[:len(ids)-1]
	}
	return append(dst, ids...)
}

// forced returns the bytes that must come next, and whether the text must end after them. Where finding out takes too
// long, there are none, now and later: a forecast is never worth that.
func (t *text) forced() (text string, ends bool) {
	if t.err != nil || t.blind {
		return "", false
	}
	heads := t.begin(&t.tokens, maxForecast)
	defer func() {
		if t.err == ErrLimit {
			t.err, t.blind = nil, true
		}
	}()
	defer t.end()
	bytes, ends := t.a.w.forced(heads)
	return string(bytes), ends
}

// forced returns the bytes that must come next, and whether the text must end after them. They are valid
// until the next call.
func (w *walker) forced(heads []head) (bytes []byte, ends bool) {
	w.text = w.text[:0]
	from, to := w.close(append(w.heads[:0], heads...), 0), w.spare[:0]
	for len(w.text) < maxForced {
		b := w.only(from)
		if b < 0 || complete(from) {
			ends = b == noByte
			break
		}
		w.text = append(w.text, byte(b))
		to = w.close(w.step(to[:0], from, byte(b)), 0)
		from, to = to, from
	}
	w.heads, w.spare = from, to
	return w.text, ends
}

// only returns the only byte that may follow closed heads, or noByte or manyBytes.
func (w *walker) only(heads []head) int16 {
	b := int16(noByte)
	for _, h := range heads {
		if b = either(b, w.a.forced(h.s)); b == manyBytes {
			break
		}
	}
	return b
}

func either(a, b int16) int16 {
	switch {
	case a == noByte || a == b:
		return b
	case b == noByte:
		return a
	}
	return manyBytes
}

func (a *Automaton) forced(s *state) int16 {
	if s.forced != unknownByte {
		return s.forced
	}
	b := int16(noByte)
	for _, t := range s.threads {
		switch i := &a.insts[t.pc]; {
		case i.op == opByte && i.lo == i.hi:
			b = either(b, int16(i.lo))
		case i.op == opByte || i.op == opToken:
			b = manyBytes
		}
	}
	for _, e := range a.calls(s) {
		if b != manyBytes {
			b = either(b, a.forced(e.start))
		}
	}
	s.forced = b
	return b
}
