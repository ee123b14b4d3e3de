package openai

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

var errNoTuning = reply.Unsupported("this server fine-tunes no models; start it with --fine-tuning and --batch-dir")

// tuning is a handler of fine-tuning jobs.
func (s *API) tuning(
	f func(req *answer.Request, store *batch.Store, owner string) (any, error),
) func(*answer.Request) error {
	return func(req *answer.Request) error {
		if s.Tunable == nil {
			return errNoTuning
		}
		return s.kept(func(req *answer.Request, store *batch.Store, owner string) (any, error) {
			v, err := f(req, store, owner)
			switch {
			case errors.Is(err, batch.ErrTunings):
				err = &reply.Error{Status: http.StatusTooManyRequests, Message: err.Error()}
			case errors.Is(err, batch.ErrTuned):
				err = &reply.Error{Status: http.StatusNotFound, Message: err.Error(),
					Extra: map[string]any{"type": "invalid_request_error", "code": "model_not_found"}}
			case errors.Is(err, batch.ErrState):
				err = &reply.Error{Status: http.StatusConflict, Message: err.Error()}
			}
			return v, err
		})(req)
	}
}

// orAuto is a number, or "auto", which is 0.
type orAuto struct{ field.Target }

func (a orAuto) Take(r *field.Reader) error {
	if r.Kind() != '"' {
		return a.Target.Take(r)
	}
	if v, err := r.Text(`a number, or "auto"`); err != nil || v != "auto" {
		return errors.Join(err, fmt.Errorf(`%s, want a number, or "auto"`, field.Quote(v)))
	}
	return nil
}

func (a orAuto) Value() any { return "auto" }

func (a orAuto) Schema() field.Schema {
	return field.Schema{"anyOf": []field.Schema{{"enum": []string{"auto"}}, a.Target.Schema()}}
}

// members is an object of some members, of which any may be missing.
type members struct {
	want  string
	of    []field.Field
	given *[]string // is told which there are; others are refused. nil: others are ignored
}

func (m members) Take(r *field.Reader) error {
	return r.Members(m.want, func(name string) error {
		i := slices.IndexFunc(m.of, func(f field.Field) bool { return f.Names[0] == name })
		if i < 0 || r.Kind() == 'n' {
			if r.Kind() != 'n' && m.given != nil {
				return fmt.Errorf("%s: not supported, want %s", field.Quote(name), m.want)
			}
			_, err := r.Raw()
			return err
		}
		if m.given != nil {
			*m.given = append(*m.given, name)
		}
		if err := m.of[i].To.Take(r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

func (m members) Value() any { return nil }

func (m members) Schema() field.Schema {
	properties := field.Schema{}
	for _, f := range m.of {
		properties[f.Names[0]] = f.To.Schema()
	}
	return field.Schema{"description": m.want, "type": "object", "properties": properties}
}

// A tuneQuery is a request to create a fine-tuning job.
type tuneQuery struct {
	model, training, validation, suffix string

	batch, epochs int
	rate, beta    float32
	dora          bool
	kind          string   // of the method
	methods       []string // members of method that were given

	seed         int64
	metadata     metadataField
	integrations noIntegrations
}

// noIntegrations is an empty list.
type noIntegrations struct{}

func (noIntegrations) Take(r *field.Reader) error {
	return r.Elements("an empty list", func(int) error {
		return errors.New("not supported: nothing is sent elsewhere, want an empty list")
	})
}
func (noIntegrations) Value() any           { return []any{} }
func (noIntegrations) Schema() field.Schema { return field.Schema{"type": "array", "maxItems": 0} }

func newTuneQuery(*ask.Model) *tuneQuery { return &tuneQuery{seed: -1} }

// settings are the object hyperparameters.
func (q *tuneQuery) settings() members {
	return members{want: "an object with batch_size, dora, learning_rate_multiplier, n_epochs", of: []field.Field{
		field.Input("batch_size", orAuto{field.Integer(&q.batch, 1, 1<<16)}, "Examples of a step."),
		field.Input("dora", field.Boolean(&q.dora), "Each row of a matrix has a magnitude, which is trained too (DoRA): false by default."),
		field.Input("learning_rate_multiplier", orAuto{field.Float(&q.rate, 1e-4, 1e4)}, "The rate in relation to the usual one."),
		field.Input("n_epochs", orAuto{field.Integer(&q.epochs, 1, 10_000)}, "How often all examples are learnt."),
	}}
}

// dpoSettings are those of DPO.
func (q *tuneQuery) dpoSettings() members {
	m := q.settings()
	m.want = "an object with beta, batch_size, dora, learning_rate_multiplier, n_epochs"
	m.of = append(m.of, field.Input("beta", orAuto{field.Float(&q.beta, 1e-6, 1000)},
		"How closely the model stays at what it was; by default 0.1."))
	return m
}

// method is the object method.
func (q *tuneQuery) method() members {
	under := func(settings members) members {
		return members{want: "an object with hyperparameters", of: []field.Field{
			field.Input("hyperparameters", settings, "As hyperparameters."),
		}}
	}
	return members{want: "an object with type, which is supervised or dpo, and settings under that name", given: &q.methods, of: []field.Field{
		field.Input("type", field.OneOf(&q.kind, batch.Supervised, batch.DPO), "How it is fine-tuned."),
		field.Input(batch.Supervised, under(q.settings()), "Settings, where type is supervised: answers are learnt."),
		field.Input(batch.DPO, under(q.dpoSettings()), "Settings, where type is dpo: answers are preferred to worse ones."),
	}}
}

// settle chooses the method, of which only its own settings may be given.
func (q *tuneQuery) settle() error {
	for _, name := range q.methods {
		if name == "type" {
			continue
		}
		if q.kind == "" {
			q.kind = name
		}
		if name != q.kind {
			return reply.Invalid("method", "%s: given beside %s, want settings of one", name, q.kind)
		}
	}
	if q.kind == "" {
		q.kind = batch.Supervised
	}
	return nil
}

func (q *tuneQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("model", field.Text(&q.model), "The model that is fine-tuned, by a name of the list of models."),
		field.Required("training_file", field.Text(&q.training),
			"A file that was uploaded with purpose=fine-tune: of an example in each line."),
		field.Input("validation_file", field.Text(&q.validation),
			"Another, of examples that are not learnt, by whose loss the best model is chosen; by default none: then it is that of the end."),
		field.Input("method", q.method(), "How it is fine-tuned: supervised, by examples, or dpo, by pairs of a better and a worse answer."),
		field.Input("hyperparameters", q.settings(), "Settings, as method has them."),
		field.Input("seed", field.Integer(&q.seed, 0, 1<<31-1), "Of what is random: the same jobs with the same seed make the same model."),
		field.Input("suffix", field.Text(&q.suffix), "A part of the name of the model, of at most 64 letters, digits and -_.; by default none."),
		field.Input("metadata", &q.metadata, "Texts to be kept with the job, by name."),
		field.Input("integrations", &q.integrations, "None are supported."),
	}
}

// decimal is the number that a client wrote, of which x has the first digits.
func decimal(x float32) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
	if err != nil {
		return float64(x)
	}
	return v
}

// createTuning reads the body first, as createBatch does.
func (s *API) createTuning(req *answer.Request) error {
	q := newTuneQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if err := q.settle(); err != nil {
		return err
	}
	if len(q.suffix) > 64 || strings.Trim(q.suffix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return reply.Invalid("suffix", "%s, want at most 64 letters, digits and -_.", field.Quote(q.suffix))
	}
	return s.tuning(func(req *answer.Request, store *batch.Store, owner string) (any, error) {
		base, err := s.Tunable(req, q.model)
		if err != nil {
			return nil, err
		}
		w := batch.Wishes{Method: q.kind, Beta: decimal(q.beta), DoRA: q.dora, Epochs: q.epochs, Examples: q.batch, Rate: decimal(q.rate),
			Seed: int(q.seed), Suffix: q.suffix}
		if q.seed < 0 {
			w.Seed = rand.IntN(1 << 31)
		}
		t, err := store.AddTuning(owner, base, q.training, q.validation, w, q.metadata)
		if errors.Is(err, batch.ErrPurpose) || errors.Is(err, batch.ErrTuneFile) || errors.Is(err, batch.ErrNotFound) {
			return nil, reply.Bad("training_file, validation_file: %v", err)
		}
		return t, err
	})(req)
}

// How fine-tuning jobs, and what there is of them, are listed.
var (
	tunePages       = paging{"desc", 20, 1_000}
	eventPages      = paging{"desc", 20, 10_000}
	checkpointPages = paging{"desc", 10, 1_000}
)

func (s *API) listTunings(req *answer.Request, store *batch.Store, owner string) (any, error) {
	list := store.Tunings(owner)
	slices.Reverse(list)
	return pageOf(req, list, func(t batch.Tuning) string { return t.ID }, tunePages)
}

func (s *API) getTuning(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.Tuning(owner, req.HTTP.Param("id"))
}

func (s *API) cancelTuning(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.CancelTuning(owner, req.HTTP.Param("id"))
}

func (s *API) pauseTuning(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.PauseTuning(owner, req.HTTP.Param("id"))
}

func (s *API) resumeTuning(req *answer.Request, store *batch.Store, owner string) (any, error) {
	return store.ResumeTuning(owner, req.HTTP.Param("id"))
}

// deleteTuned serves DELETE /v1/models/ID of a fine-tuned model, the only kind that a client may delete.
func (s *API) deleteTuned(req *answer.Request, store *batch.Store, owner string) (any, error) {
	name := strings.TrimPrefix(req.HTTP.Param("id"), "/")
	return deleted{name, "model", true}, store.RemoveTuned(owner, name)
}

func (s *API) listTuneEvents(req *answer.Request, store *batch.Store, owner string) (any, error) {
	if _, _, err := eventPages.read(req); err != nil {
		return nil, err
	}
	list, err := store.TuneEvents(owner, req.HTTP.Param("id"))
	if err != nil {
		return nil, err
	}
	return pageOf(req, list, func(e batch.TuneEvent) string { return e.ID }, eventPages)
}

func (s *API) listTuneCheckpoints(req *answer.Request, store *batch.Store, owner string) (any, error) {
	if _, _, err := checkpointPages.read(req); err != nil {
		return nil, err
	}
	list, err := store.TuneCheckpoints(owner, req.HTTP.Param("id"))
	if err != nil {
		return nil, err
	}
	return pageOf(req, list, func(c batch.TuneCheckpoint) string { return c.ID }, checkpointPages)
}

// tuneRoutes are those of fine-tuning jobs.
func (s *API) tuneRoutes() []answer.Route {
	const jobs = "/v1/fine_tuning/jobs"
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{jobs}, Always: true, Dialect: Dialect{},
			Handle: s.createTuning, Summary: "Fine-tune a model on the examples of a file when there is time", Answer: batch.Tuning{},
			Body:    answer.BodyOf("TuneRequest", newTuneQuery),
			Example: map[string]any{"model": "llama", "training_file": "file-abc", "suffix": "support"},
		}, {
			Method: http.MethodGet, Paths: []string{jobs}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.listTunings), Summary: "List the fine-tuning jobs", Params: tunePages.params(),
			Answer: page[batch.Tuning]{},
		}, {
			Method: http.MethodGet, Paths: []string{jobs + "/:id"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.getTuning), Summary: "Describe a fine-tuning job", Params: answer.PathID, Answer: batch.Tuning{},
		}, {
			Method: http.MethodPost, Paths: []string{jobs + "/:id/cancel"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.cancelTuning), Summary: "Cancel a fine-tuning job", Params: answer.PathID, Answer: batch.Tuning{},
		}, {
			Method: http.MethodPost, Paths: []string{jobs + "/:id/pause"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.pauseTuning), Summary: "Have a fine-tuning job wait until it is resumed", Params: answer.PathID,
			Answer: batch.Tuning{},
		}, {
			Method: http.MethodPost, Paths: []string{jobs + "/:id/resume"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.resumeTuning), Summary: "Have a paused fine-tuning job go on", Params: answer.PathID,
			Answer: batch.Tuning{},
		}, {
			Method: http.MethodGet, Paths: []string{jobs + "/:id/events"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.listTuneEvents), Summary: "List what happened to a fine-tuning job",
			Params: eventPages.params(answer.PathID...), Answer: page[batch.TuneEvent]{},
		}, {
			Method: http.MethodGet, Paths: []string{jobs + "/:id/checkpoints"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.listTuneCheckpoints), Summary: "List the numbers that a fine-tuning job ended with",
			Params: checkpointPages.params(answer.PathID...), Answer: page[batch.TuneCheckpoint]{},
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/models/*id"}, Always: true, Dialect: Dialect{},
			Handle: s.tuning(s.deleteTuned), Summary: "Delete a fine-tuned model", Params: answer.PathID, Answer: deleted{},
		},
	}
}
