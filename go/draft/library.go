package draft

// A Library is shared by the drafters of a model's texts. It has the recent texts of each namespace, and the
// acceptance rates of guesses.
type Library struct {
	shelves map[string]*shelf
	clock   uint64
	records [sources]record
	rivals  [sources]record // of second guesses, where the first was wrong
}

// A shelf is the recent texts of a namespace.
type shelf struct {
	texts *history
	used  uint64
}

const (
	maxShelves  = 16      // maximum number of namespaces; the least recently used is dropped
	shelfTokens = 1 << 15 // of recent texts, per namespace
	leastText   = 16      // minimum tokens of a text to keep
)

// NewLibrary returns an empty library.
func NewLibrary() *Library { return &Library{shelves: map[string]*shelf{}} }

// shelf returns the recent texts of a namespace.
func (l *Library) shelf(namespace string) *history {
	s := l.shelves[namespace]
	if s == nil {
		if len(l.shelves) >= maxShelves {
			l.forget()
		}
		s = &shelf{texts: newHistory(shelfTokens)}
		l.shelves[namespace] = s
	}
	l.clock++
	s.used = l.clock
	return s.texts
}

// forget drops the least recently used namespace.
func (l *Library) forget() {
	oldest := ""
	for name, s := range l.shelves {
		if o := l.shelves[oldest]; o == nil || s.used < o.used {
			oldest = name
		}
	}
	delete(l.shelves, oldest)
}

// Keep adds a text to the recent ones of its namespace.
func (l *Library) Keep(namespace string, text []int32) {
	if len(text) < leastText {
		return
	}
	h := l.shelf(namespace)
	for _, id := range text[max(len(text)-shelfTokens/2, 0):] {
		h.push(id)
	}
	h.push(gap)
}
