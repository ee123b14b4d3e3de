package data

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// ReadPrompts is Read for prompts that another model is to answer: conversations need no answers.
func ReadPrompts(paths []string, f Format) (*Set, error) {
	return readAll(&reader{format: f, left: MaxBytes, set: &Set{}, prompts: true}, paths)
}

// Prompts returns the tokens of what is to be answered, in order: what comes before each answer of a conversation that is
// learnt, and all of it if its last message is no answer; the prompt of a text, or a text without one.
func (r *Renderer) Prompts(all []Example) (prompts [][]int32, err error) {
	for i := range all {
		x := &all[i]
		if x.Turns == nil {
			known, err := r.known(x)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", x.Where, err)
			case known != nil:
				prompts = append(prompts, known.Prompt)
			default:
				prompts = append(prompts, r.begin(x, x.beginning()))
			}
			continue
		}
		for k := range len(x.Turns) + 1 {
			asked := k < len(x.Turns) && x.Turns[k].Learn || k == len(x.Turns) && x.Turns[k-1].Role != "assistant"
			if !asked || k == 0 {
				continue
			}
			prompt, err := r.prompt(x, k, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.Where, err)
			}
			p := &part{r: r}
			p.add(prompt, false)
			prompts = append(prompts, p.ids)
		}
	}
	return prompts, nil
}

// beginning returns what a text begins with.
func (x *Example) beginning() string {
	if x.Prompt != "" {
		return x.Prompt
	}
	return x.Text
}

// begin returns the tokens with which a text begins.
func (r *Renderer) begin(x *Example, text string) []int32 {
	ids := r.Tokenizer.Encode(text, tokenizer.Options{ParseSpecial: !x.Plain, NoSpecial: true})
	return r.Tokenizer.Begin(slices.Concat(r.Tokenizer.Lead(), ids))
}

// known returns the tokens of a text, if they are of the tokenizer's vocabulary; nil: they are not known.
func (r *Renderer) known(x *Example) (*Kept, error) {
	if x.Kept == nil || x.Kept.Vocabulary != r.Tokenizer.Hash() {
		return nil, nil
	}
	for _, part := range []struct {
		name string
		ids  []int32
	}{{"prompt_ids", x.Kept.Prompt}, {"completion_ids", x.Kept.Answer}} {
		for i, id := range part.ids {
			if id < 0 || int(id) >= r.Tokenizer.Len() {
				return nil, fmt.Errorf("%s.%d: token %d, of %d", part.name, i, id, r.Tokenizer.Len())
			}
		}
	}
	return x.Kept, nil
}

// text returns the tokens as a text, whose answer is learnt.
func (k *Kept) text() model.Text {
	if k == nil {
		return model.Text{}
	}
	return weighted(slices.Concat(k.Prompt, k.Answer), len(k.Prompt))
}

// Answered returns texts of prompts and their answers, which are learnt, and their counts. A prompt without an answer is left out.
func Answered(prompts, answers [][]int32) (texts []model.Text, c Counts) {
	for i, prompt := range prompts {
		m := rendered{empty: len(answers[i]) == 0, longest: len(prompt) + len(answers[i])}
		if !m.empty {
			m.texts = []model.Text{weighted(slices.Concat(prompt, answers[i]), len(prompt))}
		}
		c.add(&m, "")
		texts = append(texts, m.texts...)
	}
	return texts, c
}
