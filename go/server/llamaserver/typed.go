package llamaserver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Typed questions are those of the System One API and of OpenAI's Decisions API: whether something holds, which of some
// labels fits, or how far up some levels it is. They are written as questions with choices, and asked as those are.

// What questions may have, as in both APIs.
const (
	mostOptions = 255 // of a choice
	mostLevels  = 10  // of a score
	leastOfBoth = 2
)

// letters are labels that are answered in place of texts.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// A typed is a question of a type.
type typed struct {
	name         jsontext.Value // of OpenAI's: a string or null
	kind         string         // noul or predicate, choice, score
	instructions string
	options      []option // of a noul or predicate: that it holds, and that it does not
}

// An option is what may be the answer.
type option struct {
	value jsontext.Value // as the answer has it
	label string         // as the question has it; of a level: empty
	about string         // what the question says of it; empty: nothing
}

// size is how many options there are.
func (t *typed) size() int {
	if t == nil {
		return 0
	}
	return len(t.options)
}

// holds reports whether the question is about whether something holds.
func (t *typed) holds() bool { return t.kind == "noul" || t.kind == "predicate" }

// asked writes the question, as what follows what it is about and as choices. With texts, a choice is answered by its label,
// otherwise by a letter where there are enough of those.
func (t *typed) asked(texts bool) question {
	q := question{typed: t}
	lines := make([]string, len(t.options))
	end := "Answer with the letter of one of these"
	switch texts = texts || len(t.options) > len(letters); {
	case t.holds():
		end = "Answer Yes or No"
		q.choices = choices{"Yes", "No"}
		for i, o := range t.options {
			if o.about != "" {
				lines[i] = joined(": ", q.choices[i], o.about)
			}
		}
	case t.kind == "score":
		end = "Answer with the number of one of these levels"
		for i, o := range t.options {
			q.choices = append(q.choices, strconv.Itoa(i))
			lines[i] = joined(": ", q.choices[i], o.label, o.about)
		}
	case texts:
		end = "Answer with one of these labels"
		for i, o := range t.options {
			q.choices = append(q.choices, o.label)
			lines[i] = joined(": ", o.label, o.about)
		}
		q.ends = q.choices.begin() // one does not count as the beginning of another
	default:
		for i, o := range t.options {
			q.choices = append(q.choices, letters[i:i+1])
			lines[i] = joined(": ", letters[i:i+1], o.label, o.about)
		}
	}
	if list := joined("\n", lines...); list != "" {
		end += ":\n" + list
	} else {
		end += "."
	}
	q.prompt = joined("\n\n", t.instructions, end)
	return q
}

// joined joins the texts that are not empty.
func joined(with string, all ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" }), with)
}

// readTyped reads a question: of the System One API, whose options are its criteria, or of OpenAI's.
func readTyped(r *field.Reader, openai bool) (q question, err error) {
	t := &typed{name: jsontext.Value("null")}
	var criteria, options, levels jsontext.Value
	err = r.Members("an object", func(name string) (err error) {
		switch {
		case name == "type":
			t.kind, err = r.Text("a string")
		case name == "instructions":
			t.instructions, err = readText(r)
		case name == "calibration":
			err = q.calibration.Take(r)
		case openai && name == "name":
			if k := r.Kind(); k != 'n' && k != '"' {
				err = r.Wrong("a string or null")
				break
			}
			t.name, err = r.Raw()
			t.name = t.name.Clone()
		case openai && name == "choices":
			options, err = r.Raw()
		case openai && name == "levels":
			levels, err = r.Raw()
		case !openai && name == "criteria":
			criteria, err = r.Raw()
		default: // a typo would leave the question without its options
			err = fmt.Errorf("%s is not known", field.Quote(name))
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
	case t.kind == "":
		err = errors.New("type: missing, want " + kinds(openai))
	case !slices.Contains(strings.Split(kinds(openai), ", "), t.kind):
		err = fmt.Errorf("type: the string %s, want one of %s", field.Quote(t.kind), kinds(openai))
	case openai && t.instructions == "":
		err = errors.New("instructions: missing, want a string")
	case t.kind == "choice" && openai:
		err = t.read("choices", options, mostOptions, "value")
	case t.kind == "score" && openai:
		err = t.read("levels", levels, mostLevels, "label")
	case t.kind == "choice":
		err = t.labels(criteria)
	case t.kind == "score":
		err = t.levels(criteria)
	default:
		err = t.truth(criteria)
	}
	if err == nil && t.holds() && t.instructions == "" && t.options[0].about == "" && t.options[1].about == "" {
		err = errors.New("instructions: missing, and so are criteria; want one of them")
	}
	q.typed = t
	return q, err
}

// kinds are the types of questions.
func kinds(openai bool) string {
	if openai {
		return "predicate, choice, score"
	}
	return "noul, choice, score"
}

// readText reads a text, or JSON that is its own text. Null is no text.
func readText(r *field.Reader) (string, error) {
	const want = "a string, an object or an array"
	switch r.Kind() {
	case '"':
		return r.Text(want)
	case 'n':
		_, err := r.Raw()
		return "", err
	case '{', '[':
		v, err := r.Raw()
		if err == nil {
			v = v.Clone()
			err = v.Compact()
		}
		return string(v), err
	}
	return "", r.Wrong(want)
}

// textOrJSON is a text, or JSON that is its own text.
type textOrJSON struct{ to *string }

func (t textOrJSON) Take(r *field.Reader) (err error) {
	*t.to, err = readText(r)
	return err
}

func (t textOrJSON) Value() any { return nil }

func (t textOrJSON) Schema() field.Schema {
	return field.Schema{"type": []string{"string", "object", "array"}}
}

// missing reports whether a member is not there.
func missing(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

// truth reads criteria of a noul: what it means that it holds, and that it does not.
func (t *typed) truth(criteria jsontext.Value) error {
	t.options = make([]option, 2)
	if missing(criteria) {
		return nil
	}
	r := field.NewReader(criteria)
	return field.Within("criteria", r.Members(`an object such as {"true": "...", "false": "..."}`, func(name string) (err error) {
		i := slices.Index([]string{"true", "false"}, name)
		if i < 0 {
			return fmt.Errorf("%s is not known, want true or false", field.Quote(name))
		}
		t.options[i].about, err = readText(r)
		return field.Within(name, err)
	}))
}

// labels reads criteria of a choice: labels, each with what it means.
func (t *typed) labels(criteria jsontext.Value) error {
	const want = `an object such as {"billing": "payments and refunds", "other": null}`
	if missing(criteria) {
		return errors.New("criteria: missing, want " + want)
	}
	r := field.NewReader(criteria)
	return field.Within("criteria", t.enough(r.Members(want, func(name string) error {
		if name == "" {
			return errors.New("a label is empty, want a text")
		}
		value, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return fmt.Errorf("%s: %w", field.Quote(name), err)
		}
		about, err := readText(r)
		if err != nil {
			return field.Within(field.Quote(name), err)
		}
		return t.add(option{value, name, about}, mostOptions)
	})))
}

// levels reads criteria of a score: what each level means, from the lowest on.
func (t *typed) levels(criteria jsontext.Value) error {
	const want = `an array such as ["calm", "annoyed", "furious"]`
	if missing(criteria) {
		return errors.New("criteria: missing, want " + want)
	}
	r := field.NewReader(criteria)
	return field.Within("criteria", t.enough(r.Elements(want, func(i int) error {
		from := r.Offset()
		about, err := readText(r)
		if err != nil {
			return field.Within(fmt.Sprintf("element %d", i), err)
		}
		return t.add(option{value: r.Since(from).Clone(), about: about}, mostLevels)
	})))
}

// read reads OpenAI's options: objects with a value or a label, and a description.
func (t *typed) read(where string, list jsontext.Value, most int, label string) error {
	want := `an array of objects such as {"` + label + `": "billing", "description": "payments and refunds"}`
	if missing(list) {
		return fmt.Errorf("%s: missing, want %s", where, want)
	}
	r := field.NewReader(list)
	return field.Within(where, t.enough(r.Elements(want, func(i int) error {
		var o option
		err := r.Members(want, func(name string) (err error) {
			switch name {
			case label:
				from := r.Offset()
				if k := r.Kind(); label == "value" && (k == 't' || k == 'f') {
					_, err = r.Token()
					o.label = string(r.Since(from))
				} else {
					o.label, err = r.Text("a string")
				}
				o.value = r.Since(from).Clone()
			case "description":
				o.about, err = readText(r)
			default:
				err = fmt.Errorf("%s is not known", field.Quote(name))
			}
			return field.Within(name, err)
		})
		switch {
		case err != nil:
		case o.label == "":
			err = fmt.Errorf("%s: missing or empty, want a text", label)
		case slices.ContainsFunc(t.options, func(p option) bool { return p.label == o.label && p.value.Kind() == o.value.Kind() }):
			err = fmt.Errorf("%s: %s is there twice", label, field.Quote(o.label))
		default:
			err = t.add(o, most)
		}
		return field.Within(fmt.Sprintf("element %d", i), err)
	})))
}

// add adds an option to those there are, which are bounded.
func (t *typed) add(o option, most int) error {
	if len(t.options) == most {
		return fmt.Errorf("more than %d, want at most so many", most)
	}
	t.options = append(t.options, o)
	return nil
}

// enough returns an error for too few options, unless there is another.
func (t *typed) enough(err error) error {
	if err == nil && len(t.options) < leastOfBoth {
		err = fmt.Errorf("%d, want at least %d", len(t.options), leastOfBoth)
	}
	return err
}

// about is what typed questions are about: texts, and media. Nil: nothing was given.
type about []chat.Part

// message returns that of a question: what is told before all, what it is about, and the question.
func (a about) message(before, prompt string) chat.Message {
	var parts []chat.Part
	add := func(p chat.Part) {
		if last := len(parts) - 1; p.Medium == nil && last >= 0 && parts[last].Medium == nil {
			parts[last].Text += "\n\n" + p.Text
		} else if p.Medium != nil || p.Text != "" {
			parts = append(parts, p)
		}
	}
	add(chat.Part{Text: before})
	for _, p := range a {
		add(p)
	}
	add(chat.Part{Text: prompt})
	if len(parts) == 1 {
		return chat.Message{Role: "user", Content: chat.Text(parts[0].Text)}
	}
	return chat.Message{Role: "user", Content: chat.Content{Parts: parts}}
}

// stateText is a state of the System One API.
type stateText struct{ to *about }

func (s stateText) Take(r *field.Reader) error {
	text, err := readText(r)
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("empty, want a text, an object or an array")
	}
	*s.to = about{{Text: text}}
	return err
}

func (s stateText) Value() any { return nil }

func (s stateText) Schema() field.Schema {
	return field.Schema{"type": []string{"string", "object", "array"}, "description": "a text, an object or an array"}
}

// inputParts are an input of OpenAI's Decisions API.
type inputParts struct{ to *about }

const wantInput = `a text, or an array of messages such as {"role": "user", "content": "hello"}`

func (in inputParts) Take(r *field.Reader) (err error) {
	var all about
	if r.Kind() == '"' {
		var text string
		text, err = r.Text(wantInput)
		all = about{{Text: text}}
	} else {
		err = r.Elements(wantInput, func(i int) error {
			parts, err := inputMessage(r)
			all = append(all, parts...)
			return field.Within(fmt.Sprintf("message %d", i), err)
		})
	}
	if err == nil && !slices.ContainsFunc(all, func(p chat.Part) bool { return p.Medium != nil || strings.TrimSpace(p.Text) != "" }) {
		err = errors.New("empty, want " + wantInput)
	}
	*in.to = all
	return err
}

// inputMessage reads a message of the user.
func inputMessage(r *field.Reader) (parts about, err error) {
	role := ""
	err = r.Members("an object", func(name string) (err error) {
		switch {
		case name == "role":
			role, err = r.Text("user")
		case name == "content" && r.Kind() == '"':
			var text string
			text, err = r.Text("a string")
			parts = about{{Text: text}}
		case name == "content":
			err = r.Elements("a string or an array of parts", func(i int) error {
				p, err := inputPart(r)
				parts = append(parts, p)
				return field.Within(fmt.Sprintf("part %d", i), err)
			})
		case name == "type":
			var kind string
			if kind, err = r.Text("message"); err == nil && kind != "message" {
				err = fmt.Errorf("the string %s, want message", field.Quote(kind))
			}
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
	case role != "user":
		err = fmt.Errorf("role: the string %s, want user", field.Quote(role))
	case len(parts) == 0:
		err = errors.New("content: missing or empty, want a string or an array of parts")
	}
	return parts, err
}

// inputPart reads a part of a message: a text or a picture.
func inputPart(r *field.Reader) (p chat.Part, err error) {
	kind, text, m := "", "", chat.Medium{Kind: chat.Picture}
	err = r.Members("an object", func(name string) (err error) {
		switch name {
		case "type":
			kind, err = r.Text("a string")
		case "text":
			text, err = r.Text("a string")
		case "image_url":
			m.Source, err = r.Text("a URL")
		case "detail":
			err = r.Optional(&m.Detail)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
	case kind == "input_text":
		p.Text = text
	case kind != "input_image":
		err = fmt.Errorf("type: the string %s, want input_text or input_image", field.Quote(kind))
	case m.Source == "":
		err = reply.Bad("image_url: missing, want data:image/png;base64,...")
	default:
		p.Medium = &m
	}
	return p, err
}

func (in inputParts) Value() any { return nil }

func (in inputParts) Schema() field.Schema {
	text := field.Schema{"type": "string"}
	part := field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{
		"type": field.Schema{"enum": []string{"input_text", "input_image"}}, "text": text, "image_url": text, "detail": text}}
	return field.Schema{"description": wantInput, "anyOf": []field.Schema{text, {"type": "array", "minItems": 1,
		"items": field.Schema{"type": "object", "required": []string{"role", "content"}, "properties": field.Schema{
			"role": field.Schema{"enum": []string{"user"}}, "content": field.Schema{"anyOf": []field.Schema{text, {"type": "array", "items": part}}},
		}}}}}
}
