package eval

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of files of questions, by llama-perplexity's flags for them.
const (
	HellaSwag      = "hellaswag"
	Winogrande     = "winogrande"
	MultipleChoice = "multiple-choice"
)

// Questions reads a file of questions. JSON, an object a line with the fields of HellaSwag, Winogrande, MMLU, ARC or
// TruthfulQA, is told from llama-perplexity's formats, of which each kind has its own.
func Questions(kind, text string) ([]Question, error) {
	var (
		all []Question
		err error
	)
	switch {
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		all, err = jsonQuestions(text)
	case kind == HellaSwag:
		all, err = hellaSwag(text)
	case kind == Winogrande:
		all, err = winogrande(text)
	default:
		all, err = multipleChoice([]byte(text))
	}
	if err == nil && len(all) == 0 {
		err = errors.New("no questions in the file")
	}
	for i := range all {
		if err == nil {
			if err = all[i].check(); err != nil {
				err = fmt.Errorf("question %d: %w", i+1, err)
			}
		}
	}
	return all, err
}

// Spread returns n of the questions from all over the file, or all for 0: files are
// often sorted by subject.
func Spread(all []Question, n int) []Question {
	if n == 0 || n >= len(all) {
		return all
	}
	part := make([]Question, n)
	for i := range part {
		part[i] = all[i*len(all)/n]
	}
	return part
}

// only returns n marks, of which that of index i is set; none if there is no such index.
func only(i, n int) []bool {
	marks := make([]bool, n)
	if i >= 0 && i < n {
		marks[i] = true
	}
	return marks
}

// continued puts what comes between a context and its continuations in front of these.
func continued(choices []string) []string {
	all := make([]string, len(choices))
	for i, c := range choices {
		if c != "" {
			all[i] = " " + c
		}
	}
	return all
}

// hellaSwag reads six lines for each question: context, index of the right ending, four endings.
func hellaSwag(text string) ([]Question, error) {
	const lines = 6
	all := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	if len(all)%lines != 0 {
		return nil, fmt.Errorf("%d lines, want six for each question: context, number of the right ending, four endings", len(all))
	}
	var questions []Question
	for at := 0; at < len(all); at += lines {
		q := all[at : at+lines]
		for i := range q {
			q[i] = strings.TrimSuffix(q[i], "\r")
		}
		right, err := strconv.Atoi(strings.TrimSpace(q[1]))
		if err != nil || right < 0 || right > 3 {
			return nil, fmt.Errorf("line %d: %.40q, want the number of the right ending, 0 to 3", at+2, q[1])
		}
		questions = append(questions, Question{Before: q[0], Choices: continued(q[2:]), Right: only(right, 4)})
	}
	return questions, nil
}

// winogrande reads lines of an index, a sentence with a gap, two choices, and 1 or 2.
func winogrande(text string) ([]Question, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes = 5, true
	var questions []Question
	for {
		f, err := r.Read()
		if err == io.EOF {
			return questions, nil
		}
		line, _ := r.FieldPos(0)
		if err != nil {
			return nil, fmt.Errorf("%w; want index,sentence with _,choice,choice,1 or 2", err)
		}
		q, err := gap(f[1], f[2], f[3], f[4])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		questions = append(questions, q)
	}
}

// gap returns the question of a sentence with a gap.
func gap(sentence, one, two, answer string) (Question, error) {
	before, after, ok := strings.Cut(sentence, "_")
	n, err := strconv.Atoi(strings.TrimSpace(answer))
	if !ok || err != nil || n < 1 || n > 2 {
		return Question{}, fmt.Errorf("the sentence %.40q with the answer %.10q, want a _ in it and 1 or 2", sentence, answer)
	}
	return Question{Before: before, After: after, Choices: []string{one, two}, Right: only(n-1, 2)}, nil
}

// multipleChoice reads llama-perplexity's binary file: the number of tasks and the
// position of each, then for each the question, and twice answers with marks, of which the
// first have one that is right.
func multipleChoice(b []byte) ([]Question, error) {
	r := &taskReader{b: b}
	count := r.number()
	r.next(4 * uint64(count)) // the positions: all tasks are read
	var questions []Question
	for range count {
		q := Question{Before: string(r.next(uint64(r.number())))}
		q.Choices, q.Right = r.answers()
		r.answers() // where several are right
		if r.short {
			return nil, errors.New("not a whole file of multiple-choice tasks: want JSON, an object a line, or llama-perplexity's binary form")
		}
		q.Choices = continued(q.Choices)
		questions = append(questions, q)
	}
	return questions, nil
}

// A taskReader reads the fields of llama-perplexity's binary form. At the end, short is set and
// all further fields are empty.
type taskReader struct {
	b     []byte
	short bool
}

func (r *taskReader) next(n uint64) []byte {
	if r.short = r.short || n > uint64(len(r.b)); r.short {
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *taskReader) number() uint32 {
	if b := r.next(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// answers reads answers, and after them which are right.
func (r *taskReader) answers() ([]string, []bool) {
	n := r.number()
	if r.short = r.short || n > maxChoices; r.short {
		return nil, nil
	}
	choices, right := make([]string, n), make([]bool, n)
	for i := range choices {
		choices[i] = string(r.next(uint64(r.number())))
	}
	for i := range right {
		right[i] = r.number() == 1
	}
	return choices, right
}

// A record has the fields of several data sets.
type record struct {
	Activity string          `json:"activity_label"` // HellaSwag
	Ctx      string          `json:"ctx"`
	Endings  []string        `json:"endings"`
	Label    json.RawMessage `json:"label"`

	Sentence string `json:"sentence"` // Winogrande
	One      string `json:"option1"`
	Two      string `json:"option2"`

	Question string          `json:"question"` // MMLU; ARC has its choices in an object
	Choices  json.RawMessage `json:"choices"`
	Answer   json.RawMessage `json:"answer"`
	Key      string          `json:"answerKey"`

	Targets *struct { // TruthfulQA
		Choices []string `json:"choices"`
		Labels  []int    `json:"labels"`
	} `json:"mc1_targets"`
}

func jsonQuestions(text string) ([]Question, error) {
	var questions []Question
	n := 0
	for line := range strings.Lines(text) {
		if n++; strings.TrimSpace(line) == "" {
			continue
		}
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		q, err := r.question()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		questions = append(questions, q)
	}
	return questions, nil
}

func (r *record) question() (Question, error) {
	switch {
	case r.Endings != nil:
		q := Question{Before: wikiHow(r.Ctx), Right: only(index(r.Label, nil), len(r.Endings))}
		if r.Activity != "" {
			q.Before = wikiHow(r.Activity + ": " + r.Ctx)
		}
		for _, e := range r.Endings {
			q.Choices = append(q.Choices, wikiHow(e))
		}
		q.Choices = continued(q.Choices)
		return q, nil
	case r.Sentence != "":
		return gap(r.Sentence, r.One, r.Two, strings.Trim(string(r.Answer), `"`))
	case r.Targets != nil:
		q := Question{Before: r.Question, Choices: continued(r.Targets.Choices), Right: make([]bool, len(r.Targets.Choices))}
		for i, mark := range r.Targets.Labels {
			if i < len(q.Right) {
				q.Right[i] = mark == 1
			}
		}
		return q, nil
	case r.Choices != nil:
		var keys, choices []string
		if err := json.Unmarshal(r.Choices, &choices); err != nil {
			var named struct{ Text, Label []string }
			if err := json.Unmarshal(r.Choices, &named); err != nil {
				return Question{}, errors.New(`"choices" are neither strings nor an object of "text" and "label"`)
			}
			choices, keys = named.Text, named.Label
		}
		answer := r.Answer
		if r.Key != "" {
			answer = json.RawMessage(r.Key)
		}
		return Question{Before: r.Question, Choices: continued(choices), Right: only(index(answer, keys), len(choices))}, nil
	}
	return Question{}, errors.New(`no choices: want "endings", "choices", "mc1_targets", or "sentence" with "option1" and "option2"`)
}

// index returns which choice an answer names: by its key, its number from 0, or its letter; -1 for none.
func index(answer json.RawMessage, keys []string) int {
	s := strings.Trim(strings.TrimSpace(string(answer)), `"`)
	if i := slices.Index(keys, s); i >= 0 {
		return i
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	if len(s) == 1 && s[0] >= 'A' && s[0] <= 'Z' {
		return int(s[0] - 'A')
	}
	return -1
}

var marks = regexp.MustCompile(`\[.*?\]`)

// wikiHow removes the marks that HellaSwag's source has in its texts, as is usual.
func wikiHow(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	return strings.ReplaceAll(marks.ReplaceAllString(s, ""), "  ", " ")
}
