package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Question is a text with a gap, and what may fill it.
type Question struct {
	Before, After string
	Choices       []string
	Right         []bool // of each choice
}

// Check returns an error for a question that cannot be asked.
func (q *Question) check() error {
	switch {
	case len(q.Choices) < 2 || len(q.Choices) > maxChoices:
		return fmt.Errorf("%d choices, want 2 to %d", len(q.Choices), maxChoices)
	case slices.Contains(q.Choices, ""):
		return errors.New("an empty choice")
	case !slices.Contains(q.Right, true):
		return errors.New("no choice is right")
	}
	return nil
}

const maxChoices = 100

// A Task is a question in tokens: the model chooses the text whose scored tokens have
// the highest mean log-probability.
type Task struct {
	texts []choice
	right []bool
	same  int // first tokens that all texts share
}

type choice struct {
	ids      []int32
	from, to int // scored
}

// minAfter is how many tokens must follow the gap for these alone to be scored, as
// llama-perplexity has it for Winogrande.
const minAfter = 3

// NewTask makes a task of a question. Scored is what differs between the texts, or, where
// more than a few tokens follow the gap in each, those tokens without the last.
func NewTask(q Question, encode func(string) []int32) (Task, error) {
	if err := q.check(); err != nil {
		return Task{}, err
	}
	t := Task{right: q.Right, same: math.MaxInt}
	for _, text := range q.Choices {
		c := choice{ids: encode(q.Before + text + q.After)}
		c.to = len(c.ids)
		t.texts = append(t.texts, c)
		first := t.texts[0].ids
		n := 0
		for n < min(len(first), len(c.ids)-1) && first[n] == c.ids[n] {
			n++
		}
		t.same = min(t.same, n, len(first)-1)
	}
	if t.same < 1 {
		return Task{}, errors.New("the choices have no beginning in common; give a question or a context before them")
	}
	long := q.After != ""
	for _, c := range t.texts {
		long = long && len(c.ids)-t.same > minAfter
	}
	for i := range t.texts {
		c := &t.texts[i]
		if c.from = t.same; long {
			c.from = min(max(len(encode(q.Before+q.Choices[i])), t.same), len(c.ids)-1)
		}
		if q.After != "" && len(c.ids)-c.from > 1 {
			c.to--
		}
	}
	return t, nil
}

// Tokens returns how many tokens the longest text has.
func (t *Task) Tokens() int {
	n := 0
	for _, c := range t.texts {
		n = max(n, len(c.ids))
	}
	return n
}

// A Score is how many tasks were answered right.
type Score struct {
	Tasks, Right int
	chance       float64 // sum of the shares of right choices
}

// Accuracy returns the share of right answers.
func (s Score) Accuracy() float64 { return float64(s.Right) / float64(s.Tasks) }

// Chance returns the share that a blind choice would have.
func (s Score) Chance() float64 { return s.chance / float64(s.Tasks) }

// Interval returns where the accuracy lies with a probability of 95 % (Wilson).
func (s Score) Interval() (low, high float64) {
	const z = 1.959963985
	n, p := float64(s.Tasks), s.Accuracy()
	mid, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (mid - half) / (1 + z*z/n), (mid + half) / (1 + z*z/n)
}

// Choose has the model answer tasks. After each, progress is called with the score so far.
func Choose(ctx context.Context, m Model, tasks []Task, progress func(Score) error) (Score, error) {
	var s Score
	for i := range tasks {
		best, err := tasks[i].choose(ctx, m)
		if err != nil {
			return s, fmt.Errorf("task %d: %w", i+1, err)
		}
		right := tasks[i].right
		s.Tasks++
		if right[best] {
			s.Right++
		}
		for _, r := range right {
			if r {
				s.chance += 1 / float64(len(right))
			}
		}
		if err := progress(s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// choose returns the index of the likeliest text.
func (t *Task) choose(ctx context.Context, m Model) (int, error) {
	shared := m()
	defer shared.Close()
	scores := make([]float64, len(t.texts))
	add := func(i, at int, logits []float32) error {
		c := &t.texts[i]
		if at < c.from || at >= c.to {
			return nil
		}
		nll, err := negLogLikelihood(logits, c.ids[at])
		scores[i] -= nll / float64(c.to-c.from)
		return err
	}
	err := shared.Eval(ctx, t.texts[0].ids[:t.same], t.same-1, func(_ int, logits []float32) error {
		for i := range t.texts {
			if err := add(i, t.same, logits); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i, c := range t.texts {
		rest := c.ids[t.same:max(c.to-1, t.same)]
		text := shared.Fork()
		err := text.Eval(ctx, rest, min(max(c.from-1-t.same, 0), len(rest)), func(k int, logits []float32) error {
			return add(i, t.same+k+1, logits)
		})
		text.Close()
		if err != nil {
			return 0, err
		}
	}
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return best, nil
}
