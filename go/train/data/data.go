// Package data reads what a model is to learn from: conversations, prompts with their completions, texts, pairs of a
// better and a worse answer, and texts to compare. It renders them to tokens with the weight of each in the loss, as the model sees them when it
// is served. Files come from strangers: sizes are checked before anything is allocated, and each error names the file, the
// line and the field.
package data

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/chat"
)

// An Example is something to learn from: a conversation, or a text after a prompt.
type Example struct {
	Where string // FILE:LINE
	Turns []Turn // a conversation; nil: Prompt and Text
	Tools []json.RawMessage

	Prompt string // is not learnt
	Text   string // is learnt; with an empty prompt it may be divided
	Plain  bool   // names of control tokens in it are text

	Kept *Kept // what a model read and wrote; nil: it is not known
}

// Kept are the tokens of a prompt and its answer, the end included, as a server kept them. They are taken in place of the texts by
// models of the same vocabulary.
type Kept struct {
	Model      string // that answered
	Vocabulary string // its tokenizer.Hash
	Prompt     []int32
	Answer     []int32
}

// A Turn is a message of a conversation.
type Turn struct {
	chat.Message
	Learn bool // it is the assistant's, and learnt
}

// A Pair is two answers to one prompt, of which one is preferred. Only the answers are learnt.
type Pair struct {
	Where            string // FILE:LINE
	Chosen, Rejected Example
}

// A Set is what files hold: examples, pairs, or comparisons.
type Set struct {
	Examples []Example
	Pairs    []Pair
	Compared []Comparison
}

// Len returns how many there are.
func (s *Set) Len() int { return len(s.Examples) + len(s.Pairs) + len(s.Compared) }

// Kind returns what they are, for messages.
func (s *Set) Kind() string {
	switch {
	case len(s.Pairs) > 0:
		return "pairs of a better and a worse answer"
	case len(s.Compared) > 0:
		return "texts to compare, or with classes"
	}
	return "texts and answers"
}

// HasChats reports whether there are conversations, which need a template.
func (s *Set) HasChats() bool {
	return slices.ContainsFunc(s.Examples, func(x Example) bool { return x.Turns != nil }) ||
		slices.ContainsFunc(s.Pairs, func(p Pair) bool { return p.Chosen.Turns != nil })
}

// Limits of what is read.
const (
	MaxLine   = 64 << 20 // bytes of a record
	MaxBytes  = 4 << 30  // of all files
	MaxCount  = 1 << 24  // examples or pairs
	maxNested = 8        // folders in folders
)

// Read reads files, and folders of them, in the given format; Auto finds out that of each file. The order is that of the
// paths, in folders that of names.
func Read(paths []string, f Format) (*Set, error) {
	return readAll(&reader{format: f, left: MaxBytes, set: &Set{}}, paths)
}

func readAll(r *reader, paths []string) (*Set, error) {
	for _, path := range paths {
		if err := r.path(path, 0); err != nil {
			return nil, err
		}
	}
	if r.set.Len() == 0 {
		return nil, fmt.Errorf("%s: no examples", strings.Join(paths, ", "))
	}
	return r.set, nil
}

// ReadFrom reads what one file, called name in errors, holds.
func ReadFrom(in io.Reader, name string, f Format) (*Set, error) {
	r := &reader{format: f, left: MaxBytes, set: &Set{}}
	if err := r.read(in, name); err != nil {
		return nil, err
	}
	if r.set.Len() == 0 {
		return nil, fmt.Errorf("%s: no examples", name)
	}
	return r.set, nil
}

type reader struct {
	format  Format
	left    int64 // bytes that may still be read
	set     *Set
	prompts bool // are wanted, and answers not needed
}

func (r *reader) path(path string, depth int) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return r.folder(path, depth)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.read(f, path)
}

// folder reads the files of a folder, hidden ones excepted.
func (r *reader) folder(path string, depth int) error {
	if depth == maxNested {
		return fmt.Errorf("%s: folders in %d others; give the inner one", path, depth)
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
			continue
		}
		if err := r.path(filepath.Join(path, e.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// read reads one file.
func (r *reader) read(in io.Reader, name string) error {
	limited := &io.LimitedReader{R: in, N: r.left + 1}
	b := bufio.NewReaderSize(limited, 1<<16)
	if start, _ := b.Peek(3); bytes.Equal(start, []byte("\ufeff")) {
		_, _ = b.Discard(3) // it was peeked at
	}
	before, err := limited.N, error(nil)
	if r.format == Plain || r.format == Auto && !looksLikeJSON(b) {
		err = r.plain(b, name)
	} else {
		err = r.records(b, name)
	}
	if limited.N == 0 {
		return fmt.Errorf("%s: more than %d GiB of data in all; give fewer files", name, MaxBytes>>30)
	}
	r.left -= before - limited.N
	return err
}

// looksLikeJSON reports whether the first character that is no space begins an object, or a list of one.
func looksLikeJSON(b *bufio.Reader) bool {
	for n := 64; ; n *= 2 {
		start, err := b.Peek(n)
		text := bytes.TrimLeft(start, " \t\r\n")
		if len(text) > 0 && text[0] == '{' {
			return true
		}
		if len(text) > 0 && text[0] == '[' {
			if text = bytes.TrimLeft(text[1:], " \t\r\n"); len(text) > 0 {
				return text[0] == '{'
			}
		} else if len(text) > 0 {
			return false
		}
		if err != nil || n >= 1<<16 {
			return false
		}
	}
}

// plain reads a whole file as one text.
func (r *reader) plain(in io.Reader, name string) error {
	text, err := io.ReadAll(io.LimitReader(in, MaxLine+1))
	switch {
	case err != nil:
		return err
	case bytes.IndexByte(text, 0) >= 0 || len(text) <= MaxLine && !utf8.Valid(text): // a longer one may end within a character
		return fmt.Errorf("%s is no text in UTF-8; give text files, or files of JSON", name)
	case len(text) > MaxLine:
		return fmt.Errorf("%s: a text of more than %d MiB; divide it into several files", name, MaxLine>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return fmt.Errorf("%s is empty", name)
	}
	return r.add(name, record{examples: []Example{{Where: name, Text: string(text), Plain: true}}})
}

// records reads a file of JSON objects: one after the other, as lines have them, or in a list.
func (r *reader) records(in *bufio.Reader, name string) error {
	lines := &lineCounter{in: in, line: 1}
	dec := newDecoder(lines)
	format := r.format
	for n := 1; ; n++ {
		value, err := dec.next()
		where := fmt.Sprintf("%s:%d", name, dec.line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && format == Auto {
			format, err = detect(value)
		}
		var rec record
		if err == nil {
			rec, err = format.parse(value)
		}
		if r.prompts && errors.Is(err, errNoAnswer) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := r.add(where, rec); err != nil {
			return err
		}
	}
}

// add appends what a record is.
func (r *reader) add(where string, rec record) error {
	for _, x := range rec.examples {
		x.Where = where
		r.set.Examples = append(r.set.Examples, x)
	}
	if p := rec.pair; p != nil {
		p.Where, p.Chosen.Where, p.Rejected.Where = where, where, where
		r.set.Pairs = append(r.set.Pairs, *p)
	}
	for _, x := range rec.compared {
		x.Where = where
		r.set.Compared = append(r.set.Compared, x)
	}
	switch n := r.set.Len(); {
	case n > max(len(r.set.Examples), len(r.set.Pairs), len(r.set.Compared)):
		return fmt.Errorf("%s: answers, pairs of answers, and texts that are compared together; give one kind", where)
	case n > MaxCount:
		return fmt.Errorf("%s: more than %d examples", where, MaxCount)
	}
	return nil
}

// hash is a number of an example that depends on what it holds alone.
func (x *Example) hash() uint64 {
	h := sha256.New()
	for _, part := range append([]string{x.Prompt, x.Text}, tools(x)...) {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	for _, t := range x.Turns {
		fmt.Fprintln(h, t.Learn)
		_ = json.NewEncoder(h).Encode(t.Message) // strings and numbers alone, and a hash takes all bytes
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

func tools(x *Example) (all []string) {
	for _, t := range x.Tools {
		all = append(all, string(t))
	}
	return all
}

// Split divides examples by a hash of each, so that none moves when others come: about a share of them is held out, at least
// one, and at least one is not. Of so few examples that the share is less than one of them, none is held out.
func Split(all []Example, share float64) (learnt, held []Example) {
	return split(all, share, (*Example).hash)
}

// SplitPairs is Split of pairs, by their prompts, so that all answers to one are held out together; without one by the better answer.
func SplitPairs(all []Pair, share float64) (learnt, held []Pair) {
	return split(all, share, func(p *Pair) uint64 {
		x := p.Chosen
		learnt := max(slices.IndexFunc(x.Turns, func(t Turn) bool { return t.Learn }), 0)
		if x.Prompt != "" || learnt > 0 {
			x.Text, x.Turns = "", x.Turns[:learnt]
		}
		return x.hash()
	})
}

func split[T any](all []T, share float64, hash func(*T) uint64) (learnt, held []T) {
	if share*float64(len(all)) < 1 || len(all) < 2 {
		return all, nil
	}
	hashes := make([]uint64, len(all))
	for i := range all {
		hashes[i] = hash(&all[i])
	}
	limit := uint64(min(share, 1) * math.Nextafter(1<<64, 0))
	limit = max(limit, slices.Min(hashes))
	if limit >= slices.Max(hashes) {
		limit = slices.Max(hashes) - min(slices.Max(hashes), 1)
	}
	for i, x := range all {
		if hashes[i] <= limit {
			held = append(held, x)
		} else {
			learnt = append(learnt, x)
		}
	}
	return learnt, held
}
