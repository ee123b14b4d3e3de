package draft

// A Library is what the drafters of a model's texts share: recent texts, by namespace, and how
// often guesses were right.
type Library struct {
	shelves map[string]*shelf
	clock   uint64
	records [sources]record
	rivals  [sources]record // of the second guesses at a token, where the first was wrong
}

// A shelf is the recent texts of a namespace.
type shelf struct {
	texts *history
	used  uint64
}

const (
	maxShelves  = 16      // namespaces; the one that was used longest ago is forgotten
	shelfTokens = 1 << 15 // of recent texts
	leastText   = 16      // tokens of a text that is worth keeping
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

// forget drops the namespace that was used longest ago.
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
