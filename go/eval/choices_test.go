package eval_test

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/eval"
)

// bytesOf encodes a text as BOS and its bytes.
func bytesOf(s string) []int32 {
	ids := []int32{256}
	for _, b := range []byte(s) {
		ids = append(ids, int32(b))
	}
	return ids
}

// A letters model likes some bytes, each by so much, whatever came before.
type letters map[byte]float32

func (l letters) Eval(_ context.Context, ids []int32, from int, visit func(int, []float32) error) error {
	row := make([]float32, 257)
	for b, v := range l {
		row[b] = v
	}
	for i := from; i < len(ids); i++ {
		if err := visit(i, row); err != nil {
			return err
		}
	}
	return nil
}

func (l letters) Fork() eval.Text { return l }
func (letters) Close()            {}

func score(t *testing.T, m eval.Text, questions ...eval.Question) eval.Score {
	t.Helper()
	var tasks []eval.Task
	for _, q := range questions {
		task, err := eval.NewTask(q, bytesOf)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	s, err := eval.Choose(t.Context(), func() eval.Text { return m }, tasks, func(eval.Score) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChoose(t *testing.T) {
	right := []bool{false, true}
	for _, tt := range []struct {
		name string
		m    letters
		q    eval.Question
		want int
	}{
		{"the likeliest", letters{'x': 5}, eval.Question{Before: "q:", Choices: []string{"aa", "xx"}, Right: right}, 1},
		{"by the mean, not the sum", letters{'x': 5, 'y': 4}, eval.Question{Before: "q:", Choices: []string{"y", "xxxxx"}, Right: right}, 1},
		{"what is shared does not count", letters{'x': 5, 'y': 4}, eval.Question{Before: "q:", Choices: []string{"xxxxy", "xxxxx"}, Right: right}, 1},
		{"a choice that begins the other", letters{'x': 5}, eval.Question{Before: "q:", Choices: []string{"ab", "abx"}, Right: right}, 1},
		{"what follows the gap, without its last", letters{'x': 5, 'z': 9}, eval.Question{Before: "q:", After: "more", Choices: []string{"z", "x"}, Right: right}, 0},
		{"the gap itself where little follows", letters{'x': 5}, eval.Question{Before: "q:", After: ".", Choices: []string{"a", "x"}, Right: right}, 1},
	} {
		if s := score(t, tt.m, tt.q); s.Right != tt.want || s.Tasks != 1 {
			t.Errorf("%s: %+v, want %d right", tt.name, s, tt.want)
		}
	}
	many := score(t, letters{'x': 5},
		eval.Question{Before: "q", Choices: []string{"a", "x"}, Right: right},
		eval.Question{Before: "q", Choices: []string{"x", "a", "b", "c"}, Right: []bool{false, true, true, false}})
	low, high := many.Interval()
	if many.Accuracy() != 0.5 || many.Chance() != 0.5 || math.Abs(low-0.0945) > 1e-3 || math.Abs(high-0.9055) > 1e-3 {
		t.Errorf("%+v: accuracy %v, chance %v, %v to %v", many, many.Accuracy(), many.Chance(), low, high)
	}
	if _, err := eval.NewTask(eval.Question{Choices: []string{"a", "b"}, Right: right}, func(s string) []int32 { return []int32{int32(s[0])} }); err == nil {
		t.Error("choices without a beginning are taken")
	}
}

func TestQuestions(t *testing.T) {
	u32 := binary.LittleEndian.AppendUint32
	str := func(b []byte, s string) []byte { return append(u32(b, uint32(len(s))), s...) }
	task := u32(u32(nil, 1), 8)
	task = u32(str(task, "Why?"), 2)
	task = u32(u32(str(str(task, "No."), "Yes."), 0), 1)
	task = u32(task, 0)
	for _, tt := range []struct {
		name, kind, text string
		before, after    string
		choices          string
		right            int
	}{
		{"lines", eval.HellaSwag, "Ctx: a man\n2\none\ntwo\nthree\nfour\n", "Ctx: a man", "", " one| two| three| four", 2},
		{"HellaSwag", eval.HellaSwag, `{"activity_label":"Ctx","ctx":"a man [header] is","label":"1","endings":["one","two [step] x"]}`, "Ctx: a man is", "", " one| two x", 1},
		{"CSV", eval.Winogrande, "7,\"Ann, who _ won.\",Ann,Bea,2\n", "Ann, who ", " won.", "Ann|Bea", 1},
		{"Winogrande", eval.Winogrande, `{"sentence":"then _ won.","option1":"Ann","option2":"Bea","answer":"1"}`, "then ", " won.", "Ann|Bea", 0},
		{"MMLU", eval.MultipleChoice, `{"question":"2+2?","choices":["3","4"],"answer":1}` + "\n\n", "2+2?", "", " 3| 4", 1},
		{"ARC", eval.MultipleChoice, `{"question":"2+2?","choices":{"text":["3","4"],"label":["1","2"]},"answerKey":"2"}`, "2+2?", "", " 3| 4", 1},
		{"letters", eval.MultipleChoice, `{"question":"2+2?","choices":["3","4"],"answer":"B"}`, "2+2?", "", " 3| 4", 1},
		{"TruthfulQA", eval.MultipleChoice, `{"question":"2+2?","mc1_targets":{"choices":["4","3"],"labels":[1,0]}}`, "2+2?", "", " 4| 3", 0},
		{"binary", eval.MultipleChoice, string(task), "Why?", "", " No.| Yes.", 1},
	} {
		all, err := eval.Questions(tt.kind, tt.text)
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", tt.name, all, err)
			continue
		}
		q := all[0]
		if q.Before != tt.before || q.After != tt.after || strings.Join(q.Choices, "|") != tt.choices || !q.Right[tt.right] {
			t.Errorf("%s: %+v", tt.name, q)
		}
	}
	for _, tt := range []struct{ kind, text, want string }{
		{eval.HellaSwag, "one\ntwo\n", "six for each question"},
		{eval.HellaSwag, "c\n4\na\nb\nc\nd\n", `line 2: "4"`},
		{eval.HellaSwag, "c\n1\na\n\nc\nd\n", "an empty choice"},
		{eval.HellaSwag, "{", "line 1"},
		{eval.HellaSwag, `{"ctx":"a"}`, "no choices"},
		{eval.MultipleChoice, `{"question":"a","choices":["b","c"],"answer":7}`, "no choice is right"},
		{eval.MultipleChoice, `{"question":"a","choices":5}`, "neither"},
		{eval.MultipleChoice, "", "no questions"},
		{eval.MultipleChoice, "\xff\xff\xff\xff", "binary form"},
		{eval.MultipleChoice, string(task[:len(task)-5]), "binary form"},
		{eval.Winogrande, "1,no gap,a,b,1\n", "a _ in it"},
		{eval.Winogrande, "1,a\n", "want index,sentence"},
	} {
		if _, err := eval.Questions(tt.kind, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: %v, want %q", tt.kind, tt.text, err, tt.want)
		}
	}
	all := make([]eval.Question, 10)
	for i := range all {
		all[i].Before = string(rune('0' + i))
	}
	if part := eval.Spread(all, 4); len(part) != 4 || part[0].Before != "0" || part[1].Before != "2" || part[3].Before != "7" {
		t.Errorf("a part of them: %v", part)
	}
}

func FuzzQuestions(f *testing.F) {
	f.Add(eval.HellaSwag, "c\n1\na\nb\nc\nd\n")
	f.Add(eval.Winogrande, "1,a _ b,c,d,1\n")
	f.Add(eval.MultipleChoice, `{"question":"a","choices":["b","c"],"answer":1}`)
	f.Fuzz(func(t *testing.T, kind, text string) {
		all, err := eval.Questions(kind, text)
		if err != nil {
			return
		}
		for _, q := range all {
			if task, err := eval.NewTask(q, bytesOf); err == nil && task.Tokens() < 2 {
				t.Errorf("%+v: a task of %d tokens", q, task.Tokens())
			}
		}
	})
}
