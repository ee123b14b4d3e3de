package answer

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

func DimensionsField(p *int) field.Field {
	return field.Setting("dimensions", field.Integer(p, 0, math.MaxInt32),
		"Keep so many of a vector's first numbers, which then gets its length again; 0 is all. For models that were "+
			"trained for it (Matryoshka).")
}

// CheckDimensions refuses more numbers than vectors have.
func CheckDimensions(m *ask.Model, n int) error {
	if most := m.VectorWidth(); n > most {
		return reply.Invalid("dimensions", "%d, want at most %d: vectors of this model have no more", n, most)
	}
	return nil
}

// Finish cuts a vector and gives it its length.
func Finish(v []float32, dimensions, norm int) []float32 {
	if dimensions > 0 {
		v = v[:min(dimensions, len(v))]
	}
	engine.Normalize(v, norm)
	return v
}

// Inputs are texts to make vectors of.
type Inputs ask.Prompts

func (p *Inputs) Take(r *field.Reader) error {
	all, err := ask.ReadPrompts(r, MaxInputs)
	*p = all
	return err
}

// Texts returns the texts, if all are: ok is false where one has token ids.
func (p Inputs) Texts() (texts []string, ok bool) {
	for _, one := range p {
		if len(one) != 1 || one[0].Ids != nil {
			return nil, false
		}
		texts = append(texts, one[0].Text)
	}
	return texts, true
}

func (p *Inputs) Value() any { return nil }

func (p *Inputs) Schema() field.Schema { return (*ask.Prompts)(p).Schema() }

// A VectorQuery is what requests for vectors of texts have in common.
type VectorQuery struct {
	Reads
	Input      Inputs
	Dimensions int
	Normalize  int
	Truncate   int
	Prompt     string // the name of the text that is put before each; empty: the model's default
}

func NewVectorQuery(m *ask.Model) VectorQuery {
	return VectorQuery{Reads: NewReads(m), Normalize: m.Normalize}
}

func (q *VectorQuery) Fields() []field.Field {
	return append([]field.Field{
		{Names: []string{"input", "content"}, To: &q.Input,
			Doc: "What to make vectors of: text, token ids, both mixed, or an array of these.", Input: true, Need: true},
		field.Setting("embd_normalize", field.Integer(&q.Normalize, -1, 1<<15),
			"Norm by which vectors get length 1: 2 is Euclidean, 1 the sum, -1 none; 0 makes the largest number 32760."),
		DimensionsField(&q.Dimensions), TruncateField(&q.Truncate), PromptNameField(&q.Prompt),
	}, q.Reads.Fields()...)
}

// PromptNameField is the name of the text of a model that is put before others.
func PromptNameField(p *string) field.Field {
	return field.Setting("prompt_name", field.Text(p), "Put the text that the model has under this name, such as "+
		"query, before each text that does not begin with token ids. By default that which the file names, if it names one.")
}

// Vectors makes the vectors that a request asks for, once its fields are read.
func (req *Request) Vectors(q *VectorQuery) (all []*engine.Embedding, used TokenUsage, release func(), err error) {
	if req.Model.Pooling == nn.PoolRank {
		return nil, used, nil, reply.Unsupported("this model scores documents and has no vectors of texts; use /v1/rerank, " +
			"or start the server with --pooling cls, mean or last")
	}
	if err := CheckDimensions(req.Model, q.Dimensions); err != nil {
		return nil, used, nil, err
	}
	input, err := q.Input.Prompted(req.Model, q.Prompt)
	if err != nil {
		return nil, used, nil, err
	}
	return req.EmbedInputs(&q.Reads, input, "input", q.Truncate, req.Model.Pooling)
}

// Prompted returns texts with the model's text of this name before each, or with its default if the name is empty.
func (p Inputs) Prompted(m *ask.Model, name string) (Inputs, error) {
	by := cmp.Or(name, m.Prompts.Default)
	text, ok := m.Prompts.Text(by)
	if !ok && name != "" {
		return nil, reply.Invalid("prompt_name", "%.40q, want one of the model's: %.200q", name, m.Prompts.Names)
	}
	if text == "" {
		return p, nil
	}
	all := make(Inputs, len(p))
	for i, one := range p {
		all[i] = one
		if len(one) > 0 && one[0].Ids == nil {
			all[i] = slices.Clone(one)
			all[i][0].Text = text + one[0].Text
		}
	}
	return all, nil
}

// EmbedInputs makes the vectors of the texts of a field, of the first tokens of each as TruncateField says.
func (req *Request) EmbedInputs(
	o *Reads, p Inputs, name string, truncate int, pooling nn.Pooling,
) (all []*engine.Embedding, used TokenUsage, release func(), err error) {
	read, release, err := req.EncodeInputs(p, name, truncate)
	if err != nil {
		return nil, used, nil, err
	}
	defer release()
	return req.Embed(o, pooling, read)
}

// EncodeInputs returns the tokens of the texts of a field, of the first of each as TruncateField says. Their memory is
// reserved until release is called.
func (req *Request) EncodeInputs(p Inputs, name string, truncate int) (read []engine.Text, release func(), err error) {
	held := req.TokenStore()
	if read, err = p.encode(req.Context(), req.Model, name, truncate, held); err != nil {
		held.Release()
		return nil, nil, err
	}
	req.Made()
	return read, held.Release, nil
}

// TruncateField is how many of its first tokens a text is read to.
func TruncateField(p *int) field.Field {
	return field.Setting("truncate_prompt_tokens", field.Integer(p, -1, math.MaxInt32),
		"Read so many of the first tokens of a longer text, among them the one that ends it; -1 is as many as the model "+
			"takes, 0 is all: what is longer than the context is refused.")
}

// Encode returns the tokens of each text of a field. Lists of ids come first, then the longest
// texts: where one exceeds the context, few others were encoded for nothing.
func (p Inputs) encode(ctx context.Context, m *ask.Model, name string, truncate int, held *TokenStore,
) ([]engine.Text, error) {
	most := 0 // tokens that a text is cut to; 0: it is not
	if truncate != 0 {
		most = min(cmp.Or(m.MaxText, m.Ctx), m.Ctx)
	}
	if truncate > 0 {
		most = min(truncate, most)
	}
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := p[a].Size(), p[b].Size()
		return cmp.Or(cmp.Compare(y.Ids, x.Ids), cmp.Compare(y.Bytes, x.Bytes))
	})
	all := make([]engine.Text, len(p))
	for _, i := range order {
		if ctx.Err() != nil {
			return nil, reply.ErrGone
		}
		if n := p[i].Size().Ids; n > m.Ctx && most == 0 {
			return nil, WrapAPI(len(p) > 1, i, &engine.TooLongError{Prompt: n, Ctx: m.Ctx})
		}
		one := &reading.Prompt{}
		var err error
		switch media := p[i].HasMedia(); {
		case media && truncate > 0:
			return nil, reply.Invalid("truncate_prompt_tokens", "not for texts with pictures or sounds, want -1 or 0")
		case most > 0 && !media:
			one.IDs, err = p[i].EncodeCut(m, name, most)
		default:
			one, err = p[i].EncodeAs(ctx, m, name)
		}
		if err == nil {
			err = held.Add(one.IDs)
		}
		if err != nil {
			return nil, WrapAPI(len(p) > 1, i, err)
		}
		all[i].IDs, all[i].Media = one.IDs, one.Media
	}
	return all, nil
}
