package persona

import (
	"reflect"
	"strings"
	"testing"
)

const pirates = `# A pirate.
from qwen3:0.6b

SYSTEM """You are a pirate.
Say "arr"."""
PARAMETER temperature 0.5
parameter stop "<|end|>"
PARAMETER stop  Human:
PARAMETER num_ctx 4096
MESSAGE user Who are you?
MESSAGE assistant "A "pirate""
LICENSE MIT
`

func TestModelfile(t *testing.T) {
	got, err := ParseModelfile(pirates)
	if err != nil {
		t.Fatal(err)
	}
	want := &Persona{
		From: "qwen3:0.6b", System: "You are a pirate.\nSay \"arr\".", License: "MIT",
		Parameters: Parameters{"temperature": 0.5, "stop": []string{"<|end|>", "Human:"}, "num_ctx": int64(4096)},
		Messages:   []Message{{"user", "Who are you?"}, {"assistant", `A "pirate"`}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	again, err := ParseModelfile(got.Modelfile())
	if err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("printed and parsed again: %+v, %v", again, err)
	}
	if names := got.Parameters.Idle(); !reflect.DeepEqual(names, []string{"num_ctx"}) {
		t.Errorf("without effect: %q", names)
	}
	const lines = `num_ctx                        4096
stop                           "<|end|>"
stop                           "Human:"
temperature                    0.5`
	if s := got.Parameters.Lines(); s != lines {
		t.Errorf("lines %q", s)
	}
	if s := string(got.Parameters.Fields()); s != `{"stop":["<|end|>","Human:"],"temperature":0.5}` {
		t.Errorf("fields %s", s)
	}
}

// Each wrong line is refused with its number, what is wrong, and what would work.
func TestWrongModelfiles(t *testing.T) {
	for text, want := range map[string]string{
		"SYSTEM x":                                    "no FROM",
		"FROM a\nFROM b":                              "line 2: FROM is there twice",
		"FROM":                                        "line 1: FROM has no value",
		"FROM a\n\nTEMPLATE {{ .Prompt }}":            "line 3: TEMPLATE is not supported",
		"FROM a\nADAPTER x.gguf":                      "--lora",
		"FROM a\nTEMP 1":                              `line 2: "TEMP" is no instruction, want FROM`,
		"FROM a\nPARAMETER heat 1":                    `line 2: there is no parameter "heat", want one of`,
		"FROM a\nPARAMETER temperature hot":           `temperature: got "hot", want a number`,
		"FROM a\nPARAMETER temperature NaN":           "want a number",
		"FROM a\nPARAMETER top_k 1.5":                 "want a whole number",
		"FROM a\nPARAMETER seed 99999999999999999999": "want a whole number",
		"FROM a\nPARAMETER top_k":                     "PARAMETER has no value",
		"FROM a\nSYSTEM \"\"\"x\ny":                   `line 2: SYSTEM: a value that begins with """ has no such end`,
		"FROM a\nSYSTEM \"\"\"x\"\"\" y":              `"y" follows the end`,
		"FROM a\nMESSAGE robot hi":                    `the role "robot", want one of system, user, assistant`,
		"FROM a\nSYSTEM \xff":                         "not UTF-8",
		strings.Repeat("#", MaxBytes+1):               "bytes, want at most",
	} {
		if _, err := ParseModelfile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q in it", text, err, want)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%.60q: the error is no short line: %q", text, err)
		}
	}
}

func TestFile(t *testing.T) {
	p, err := ParseModelfile(pirates)
	if err != nil {
		t.Fatal(err)
	}
	p.Name = "pirate"
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(b)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, %v, want %+v", got, err, p)
	}
	for text, want := range map[string]string{
		``: "damaged", `{`: "damaged", `[]`: "damaged", `{}`: "version 0",
		`{"version":2,"name":"a"}`:                                     "version 2 of the persona's file, want 1",
		`{"version":1}`:                                                "no name",
		`{"version":1,"name":"a","name":"b"}`:                          "damaged",
		`{"version":1,"name":"a","weights":"x"}`:                       `damaged at "/weights"`,
		`{"version":1,"name":"a","system":7}`:                          `damaged at "/system"`,
		`{"version":1,"name":"a","parameters":{"heat":1}}`:             "no parameter",
		`{"version":1,"name":"a","parameters":{"stop":[1]}}`:           "stop: got",
		`{"version":1,"name":"a","parameters":{"top_k":"x"}}`:          "top_k: got",
		`{"version":1,"name":"a","messages":[{"role":"robot"}]}`:       "the role",
		`{"version":1,"name":"` + strings.Repeat("a", MaxBytes) + `"}`: "more than",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q in it", text, err, want)
		}
	}
}

func TestOver(t *testing.T) {
	base := &Persona{System: "old", License: "MIT", Parameters: Parameters{"top_k": int64(3), "seed": int64(1)}}
	p := &Persona{System: "new", Parameters: Parameters{"seed": int64(2)}}
	got := p.Over(base)
	want := &Persona{System: "new", License: "MIT", Parameters: Parameters{"top_k": int64(3), "seed": int64(2)}}
	if !reflect.DeepEqual(got, want) || len(p.Parameters) != 1 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What is parsed is printed so that it is parsed to the same.
func FuzzModelfile(f *testing.F) {
	f.Add(pirates)
	f.Add("FROM \"\"\"a\"\"\"\nSYSTEM \"\"\"\"\"\"\nPARAMETER stop \"\"\"\"\"\"\"")
	f.Add("FROM a\n# x\nMESSAGE user \"a\" b\"\nPARAMETER top_p 1e-3")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseModelfile(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		again, err := ParseModelfile(p.Modelfile())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q: got %+v, %v, want %+v", p.Modelfile(), again, err, p)
		}
	})
}

// Any texts are printed so that they are parsed to the same, apart from the ends of their lines.
func FuzzTexts(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add(`say """x"""`, "\"\"\"\n\"\n\"\"\"", "\"\"\"\"\"\"\n\"\"\"\"")
	f.Add("", " ", "\n")
	f.Add("0", "0\r0", "\r")
	f.Add("\"", "a \" \nb\"", "# \r\n\"\"\"")
	f.Fuzz(func(t *testing.T, system, message, stop string) {
		p := &Persona{From: "demo", System: system, License: message, Messages: []Message{
			{"user", message}, {"assistant", system}, {"user", stop}, {"assistant", ""}, {"user", message}}}
		if stop != "" {
			p.Parameters = Parameters{"stop": []string{stop, "x"}}
		}
		if p.Check() != nil || len(p.Modelfile()) > MaxBytes {
			return
		}
		printed := p.Modelfile()
		for _, s := range []*string{&p.System, &p.License, &p.Messages[0].Content, &p.Messages[1].Content,
			&p.Messages[2].Content, &p.Messages[4].Content} {
			*s = lineEnds.Replace(*s)
		}
		if stop != "" {
			p.Parameters["stop"] = []string{lineEnds.Replace(stop), "x"}
		}
		again, err := ParseModelfile(printed)
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q: got %+v, %v, want %+v", printed, again, err, p)
		}
	})
}

// What is parsed is stored so that it is parsed to the same.
func FuzzParse(f *testing.F) {
	p, err := ParseModelfile(pirates)
	if err != nil {
		f.Fatal(err)
	}
	p.Name = "pirate"
	b, err := p.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"name":"a","parameters":{"stop":"x","temperature":1e-7,"use_mmap":true,"top_k":2.0}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		b, err = p.Encode()
		if err != nil {
			return // escapes may make it larger than it may be
		}
		again, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if c, err := again.Encode(); err != nil || string(c) != string(b) {
			t.Errorf("%s: stored again it is %s, %v", b, c, err)
		}
		p.Parameters.Fields()
	})
}
