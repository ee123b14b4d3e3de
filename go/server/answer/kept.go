package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/platform"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Kept is a file to which prompts and the answers to them are appended, a JSON object in each line: examples of the format
// "completion", from which drafts of a model's own answers are learnt. It holds what users write, so it is its owner's alone.
//
// A disk that fails or is full stops no request: the log says so once until lines are written again.
type Kept struct {
	mu   sync.Mutex
	log  zerolog.Logger
	file *os.File // nil: it is closed
	size int64
	most int64
	full bool // the log has that a line does not fit any more
	torn bool // the last line has no end
	lost int  // lines, since one was written
}

// OpenKept opens a file of at most so many bytes, or makes it. What is in it stays. Errors name the file.
func OpenKept(path string, most uint64, log zerolog.Logger) (*Kept, error) {
	// A pipe would hold up the start, and a link may be another's, to any file of the owner.
	file, err := platform.OpenItself(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if platform.IsLink(err) {
		return nil, fmt.Errorf("%s is a symbolic link, want the file itself", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", path)
	case !platform.Guarded(info):
		err = fmt.Errorf("%s may be read by others than its owner (mode %#o, want 0600), and is to have what users write", path, info.Mode().Perm())
	}
	k := &Kept{log: log.With().Str("file", path).Logger(), file: file, most: int64(min(most, 1<<62))}
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		_, err = file.ReadAt(last, info.Size()-1)
		k.size, k.torn = info.Size(), last[0] != '\n'
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return k, nil
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
func (k *Kept) add(line []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return
	}
	if k.torn {
		line = slices.Concat([]byte{'\n'}, line)
	}
	if k.size+int64(len(line)) > k.most {
		if !k.full {
			k.full = true
			k.log.Warn().Msg("the file of kept answers is full, and takes no more")
		}
		return
	}
	n, err := k.file.Write(line)
	if err != nil {
		if n > 0 && k.file.Truncate(k.size) != nil { // of a full disk: a part would spoil the next line, too
			k.size, k.torn = k.size+int64(n), true
		}
		if k.lost++; k.lost == 1 {
			k.log.Warn().Err(err).Msg("the file of kept answers cannot be written: answers are lost to it")
		}
		return
	}
	k.size, k.torn = k.size+int64(n), false
	if k.lost > 0 {
		k.log.Warn().Int("lost_answers", k.lost).Msg("the file of kept answers is written again")
		k.lost = 0
	}
}

// An exampleLine is a line of Kept. Ids are what the model read and wrote, its end included, and are learnt by models of the same
// vocabulary: a text may be read as other ones. The texts have the names of control tokens, without those that any text
// begins and ends with.
type exampleLine struct {
	Model         string  `json:"model"`
	Prompt        string  `json:"prompt"`
	Completion    string  `json:"completion"`
	Vocabulary    string  `json:"vocabulary"` // see tokenizer.Hash
	PromptIDs     []int32 `json:"prompt_ids"`
	CompletionIDs []int32 `json:"completion_ids"`
}

// newExampleLine makes the line of a prompt and its answer, of which the last token is its end.
func newExampleLine(model string, tok *tokenizer.Tokenizer, prompt, answer []int32) exampleLine {
	x := exampleLine{Model: model, Vocabulary: tok.Hash(), PromptIDs: prompt, CompletionIDs: answer}
	x.Prompt = tok.Detokenize(prompt, true) // with BOS, by which it knows the space that is inserted
	if lead := tok.Begin(nil); len(prompt) > len(lead) && slices.Equal(prompt[:len(lead)], lead) {
		x.Prompt = strings.TrimPrefix(x.Prompt, tok.Detokenize(lead, true)) // which readers add
	}
	x.Completion = tok.Detokenize(answer[:len(answer)-1], true)
	return x
}

// keeps reports whether the answer to r is kept: the model's own to text alone, under no constraint, of a client that has not
// asked for nothing to be stored or left in the cache.
func (req *Request) keeps(r *engine.Request) bool {
	scaled := func(a engine.ScaledAdapter) bool { return a.Scale != 0 }
	return req.host.Kept != nil && len(r.Media) == 0 && r.Constraint == nil && len(r.Bias) == 0 && !r.NoCache &&
		!slices.ContainsFunc(r.Adapters, scaled) && string(req.Peek("store")) != "false"
}

// keep appends what a sequence has answered, if it came to the end by itself.
func (g *Generation) keep(s *Sequence, end *Ending) {
	if !s.keeps || end.err != nil || end.Stop != StopEOS || len(s.ids) < 2 {
		return
	}
	x := newExampleLine(g.Model.Base().Name, g.Model.Tokenizer, g.Prompts[s.Index/g.Opts.N], s.ids)
	if !utf8.ValidString(x.Prompt) || !utf8.ValidString(x.Completion) {
		return
	}
	if line, err := json.Marshal(x); err == nil { // it has texts and numbers alone
		g.Request.host.Kept.add(append(line, '\n'))
	}
}
