package distil

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// Answers are what a run that is interrupted goes on from: those that there are.
type Answers struct {
	Now  time.Time `json:"now"` // the time of the prompts' templates
	Of   string    `json:"of"`  // see Question.Of
	List [][]int32 `json:"answers"`
}

// Of returns a hash of all that answers depend on: the model's identity, the question without Stop, and the prompts.
func (q *Question) Of(identity string, prompts [][]int32) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %v %d\n", identity, q.MaxTokens, q.Context, q.Temp, q.Seed)
	for _, p := range prompts {
		fmt.Fprintln(h, p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxAnswers is a sanity bound on the bytes of a file of answers.
const maxAnswers = 4 << 30

// ReadAnswers reads a file of Save.
func ReadAnswers(path string) (*Answers, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAnswers+1))
	a := &Answers{}
	if err == nil && len(text) > maxAnswers {
		err = fmt.Errorf("more than %d GiB", maxAnswers>>30)
	}
	if err == nil {
		err = json.Unmarshal(text, a)
	}
	if err == nil && a.Of == "" {
		err = errors.New("it does not say of what")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no answers of a run that was saved: %w", path, err)
	}
	return a, nil
}

// Fits returns an error unless the answers are of n prompts with that hash, in a vocabulary of so many tokens.
func (a *Answers) Fits(of string, n, vocab int) error {
	if a.Of != of || len(a.List) != n {
		return errors.New("the examples, the target, or how it is to answer, are not those that the run began with; give what they were, or begin anew")
	}
	for _, ids := range a.List {
		for _, id := range ids {
			if id < 0 || int(id) >= vocab {
				return fmt.Errorf("token %d, of %d", id, vocab)
			}
		}
	}
	return nil
}

// Save writes the answers to a file that is replaced as a whole. It is its owner's alone: users may have written the prompts.
func (a *Answers) Save(path string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = newfile.Write(path, true, 0o600, uint64(len(text)), func(w io.Writer) (int64, error) {
		n, err := w.Write(text)
		return int64(n), err
	})
	return err
}

// Done returns how many there are.
func (a *Answers) Done() (n int) {
	for _, ids := range a.List {
		if ids != nil {
			n++
		}
	}
	return n
}
