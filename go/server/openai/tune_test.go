package openai

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/field"
)

// Settings are read where OpenAI has had them at first, and where it has them now.
func TestTuneSettings(t *testing.T) {
	for body, want := range map[string]tuneQuery{
		`{}`: {},
		`{"hyperparameters": {"batch_size": 3, "n_epochs": "auto", "more": {}}}`:                            {batch: 3},
		`{"method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}}}`:            {epochs: 2, kind: "supervised"},
		`{"method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2, "n_epochs": 2}}}}`:             {epochs: 2, beta: 0.2, kind: "dpo"},
		`{"method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": "auto"}}, "supervised": null}}`:     {kind: "dpo"},
		`{"hyperparameters": {"dora": true}}`:                                                               {dora: true},
		`{"method": {"dpo": {"hyperparameters": {"dora": true, "batch_size": 2}}}}`:                         {dora: true, batch: 2},
		`{"method": {"type": "dpo"}, "integrations": null}`:                                                 {kind: "dpo"},
		`{"hyperparameters": null, "method": {"supervised": {"hyperparameters": {"batch_size": null}}}}`:    {},
		`{"method": {"supervised": {"hyperparameters": {"learning_rate_multiplier": 0.1}}}, "suffix": "x"}`: {rate: 0.1, suffix: "x"},
	} {
		var q tuneQuery
		if err := field.ReadSome([]byte(body), q.Fields()); err != nil || q.batch != want.batch || q.epochs != want.epochs || q.rate != want.rate || q.beta != want.beta ||
			q.kind != want.kind || q.dora != want.dora || q.suffix != want.suffix {
			t.Errorf("%s: %+v, %v", body, q, err)
		}
	}
	for body, want := range map[string]string{
		`{"method": {"supervised": {"hyperparameters": {"n_epochs": 0}}}}`: `supervised: hyperparameters: n_epochs: `,
		`{"method": {"type": "reinforcement"}}`:                            `type: the string "reinforcement", want one of supervised, dpo`,
		`{"method": {"reinforcement": {}}}`:                                `"reinforcement": not supported, want an object with type`,
		`{"method": {"dpo": {"hyperparameters": {"beta": 0}}}}`:            `dpo: hyperparameters: beta: `,
		`{"integrations": [{"type": "wandb"}]}`:                            `want an empty list`,
		`{"hyperparameters": []}`:                                          `want an object with batch_size, dora, learning_rate_multiplier, n_epochs`,
		`{"hyperparameters": {"batch_size": "many"}}`:                      `want a number, or "auto"`,
	} {
		var q tuneQuery
		if err := field.ReadSome([]byte(body), q.Fields()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// Settings are those of one method, which need not be named where its settings are there.
func TestTuneMethod(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                            "supervised",
		`{"method": {"dpo": {}}}`:       "dpo",
		`{"method": {"type": "dpo"}}`:   "dpo",
		`{"method": {"supervised":{}}}`: "supervised",
		`{"method": {"type": "dpo", "supervised": {}}}`: "",
		`{"method": {"dpo": {}, "supervised": {}}}`:     "",
	} {
		var q tuneQuery
		if err := field.ReadSome([]byte(body), q.Fields()); err != nil {
			t.Fatal(err)
		}
		if err := q.settle(); (err != nil) != (want == "") || err == nil && q.kind != want {
			t.Errorf("%s: %q, %v, want %q", body, q.kind, err, want)
		}
	}
}
