package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
)

// Words are the material of prompts: consecutive words of a text, or random ones of a
// few common ones. Each prompt begins differently, so that a server's prefix cache
// helps only where a prefix is shared on purpose.
type words struct {
	all    []string
	inTurn bool
}

const common = `time year people way day man thing woman life child world school state family
student group country problem hand part place case week company system program question work
number night point home water room mother area money story fact month lot right study book eye
job word business issue side kind head house service friend father power hour game line end
member law car city community name president team minute idea body information back parent face
others level office door health person art war history party result change morning reason
research girl guy moment air teacher force education the of and to in that it with as for was on
are by be at from this have or one had not but what all were when we there can an your which`

// Limits on the file of --text: prompts need no more.
const (
	maxText = 64 << 20
	maxWord = 1000
)

// readWords reads the words of a file, or returns common ones if no path is given.
func readWords(path string) (words, error) {
	if path == "" {
		return words{all: strings.Fields(common)}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return words{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return words{}, err
	}
	w := words{all: strings.Fields(strings.ToValidUTF8(string(b), "\uFFFD")), inTurn: true}
	if len(w.all) == 0 {
		return words{}, fmt.Errorf("%s: no words in it", path)
	}
	for _, word := range w.all {
		if len(word) > maxWord {
			return words{}, fmt.Errorf("%s: a word of %d bytes; want text with spaces between words", path, len(word))
		}
	}
	return w, nil
}

// text returns n words. A shorter file is repeated.
func (w words) text(r *rand.Rand, n int) string {
	var b strings.Builder
	at := r.IntN(len(w.all))
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.all[at])
		if w.inTurn {
			at = (at + 1) % len(w.all)
		} else {
			at = r.IntN(len(w.all))
		}
	}
	return b.String()
}
