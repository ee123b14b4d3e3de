package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unicode/utf8"
)

// Kept is a file to which prompts and the answers to them are appended, a JSON object in each line: examples of the format
// "completion", from which drafts of a model's own answers are learnt. It holds what users write, so it is its owner's alone.
type Kept struct {
	mu   sync.Mutex
	file *os.File // nil: it is closed
	size int64
	most int64
	full func() // called once, when a line does not fit any more; nil: it was
}

// OpenKept opens a file of at most so many bytes, or makes it. What is in it stays. full is called when there is no room for an
// answer. Errors name the file.
func OpenKept(path string, most uint64, full func()) (*Kept, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		err = fmt.Errorf("%s may be read by others than its owner (mode %#o, want 0600), and is to have what users write", path, info.Mode().Perm())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Kept{file: file, size: info.Size(), most: int64(min(most, 1<<62)), full: full}, nil
}

// Close closes the file.
func (k *Kept) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	return err
}

// add appends a line, all of it or nothing.
func (k *Kept) add(line []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	if k.size+int64(len(line)) > k.most {
		if k.full != nil {
			k.full()
			k.full = nil
		}
		return nil
	}
	n, err := k.file.Write(line)
	if err != nil && n > 0 { // of a full disk: a part would spoil the next line, too
		err = errors.Join(err, k.file.Truncate(k.size))
		n = 0
	}
	k.size += int64(n)
	return err
}

// An exampleLine is a line of Kept. Both texts have the names of control tokens, as the model read and wrote them; the
// reader adds the end.
type exampleLine struct {
	Model      string `json:"model"`
	Prompt     string `json:"prompt"`
	Completion string `json:"completion"`
}

// keeps reports whether the answers of a sequence are kept: the model's own to text alone, of a client that leaves things in the
// cache.
func (req *Request) keeps(media, adapters, noCache bool) bool {
	return req.host.Kept != nil && !media && !adapters && !noCache
}

// keep appends what a sequence has answered, if it came to the end by itself.
func (g *Generation) keep(s *Sequence, end *Ending) {
	if !s.keeps || end.err != nil || end.Stop != StopEOS || len(s.ids) == 0 {
		return
	}
	tok, prompt := g.Model.Tokenizer, g.Prompts[s.Index/g.Opts.N]
	if lead := tok.Begin(nil); len(prompt) > len(lead) && slices.Equal(prompt[:len(lead)], lead) {
		prompt = prompt[len(lead):] // which readers add
	}
	x := exampleLine{g.Model.Name, tok.Detokenize(prompt, true), tok.Detokenize(s.ids, true)}
	if !utf8.ValidString(x.Prompt) || !utf8.ValidString(x.Completion) {
		return
	}
	line, err := json.Marshal(x)
	if err == nil {
		err = g.Request.host.Kept.add(append(line, '\n'))
	}
	if err != nil {
		g.Request.host.Log.Warn().Err(err).Msg("an answer is not kept")
	}
}
