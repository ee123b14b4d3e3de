package finetune

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// An Encoder makes tokens of texts, as a model that makes vectors or scores is given them when it is served.
type Encoder struct {
	Config *nn.Config
	// Query and Document encode a text that is compared, Text one with classes.
	Query, Document, Text func(text string) []int32
	// Pair encodes a query with a document, and says where the second text begins, 0 where it is all one.
	Pair func(query, document string) (ids []int32, second int, err error)
}

// NewEncoder returns what makes tokens of texts as "quern embed", "rerank" and "classify" do. Queries and documents that are
// compared have what the model was trained to have before them, if it says so.
func NewEncoder(config *nn.Config, tok *tokenizer.Tokenizer, pair func(query, document string) (ids []int32, second int, err error)) *Encoder {
	after := func(before string) func(text string) []int32 {
		return func(text string) []int32 {
			return tok.Begin(tok.Encode(before+text, tokenizer.Options{ParseSpecial: true}))
		}
	}
	named := func(names ...string) func(text string) []int32 {
		for _, name := range append(names, config.Prompts.Default) {
			if before, ok := config.Prompts.Text(name); ok {
				return after(before)
			}
		}
		return after("")
	}
	return &Encoder{Config: config, Query: named("query"), Document: named("document", "passage"), Text: after(""), Pair: pair}
}

// standIns is how many answers to other queries a reranker tells from the answer, where data have no texts that are none.
const standIns = 4

// How many examples a step has where Settings leave it open: a part of all of them, within limits.
const (
	stepsOfComparisons = 16
	leastExamples      = 8
	mostExamples       = 64
)

// NewComparison plans the training of a model of vectors or scores: of a classifier by classes; of a reranker, whose file says
// that it scores, by ranks; of an embedding model by ranks or cosines.
func NewComparison(e *Encoder, learn, held []data.Comparison, longest int, s Settings) (*Plan, error) {
	if s.Context == 0 { // as sentence-transformers cuts texts
		s.Context = min(e.Config.MaxText, longest)
	}
	if err := s.complete(longest); err != nil {
		return nil, err
	}
	all, given := learn, len(held) > 0
	if !given {
		learn, held = data.SplitCompared(all, s.Share)
	}
	p := &Plan{Settings: s, Pooling: e.Config.TextPooling()}
	c, err := p.comparing(e.Config, learn, held)
	if err != nil {
		return nil, err
	}
	if c.among && !severalQueries(held) { // there is nothing to find an answer among
		if given {
			return nil, errors.New("the held-out examples are a single query without negatives, which says nothing; give more")
		}
		learn, held = all, nil
	}
	if c.among && !severalQueries(learn) {
		return nil, errors.New("the examples to learn are a single query without negatives; give more")
	}
	if p.Texts, p.Learnt, err = c.texts(e, learn, learn, s.Context); err != nil {
		return nil, err
	}
	if p.Held, p.HeldOut, err = c.texts(e, held, slices.Concat(learn, held), s.Context); err != nil {
		return nil, err
	}
	return p, p.divide(0)
}

// comparing is what texts are made of comparisons.
type comparing struct {
	among     bool     // an answer is found among those to other queries alone
	paired    bool     // each document is encoded with its query
	documents int      // of each; where it has fewer, answers to other queries stand in
	classes   []string // of the classifier
	named     bool     // a label is a name of a class, and not its index
}

// comparing decides which objective learns from the comparisons, which are of one kind.
func (p *Plan) comparing(c *nn.Config, learn, held []data.Comparison) (to comparing, err error) {
	all := slices.Concat(learn, held)
	least := len(all[0].Documents)
	for _, x := range all {
		if x.Classed != all[0].Classed || (x.Score == nil) != (all[0].Score == nil) || x.Score != nil && len(x.Documents) != least {
			return to, fmt.Errorf("%s: another kind of record than %s is", x.Where, all[0].Where)
		}
		least = min(least, len(x.Documents))
	}
	if to.documents = least; all[0].Classed { // whose texts may be pairs
		to.documents = 0
	}
	scores := c.Classifier.NScore > 0 && !c.Classifier.Tokens
	switch {
	case all[0].Classed && !scores:
		return to, errors.New("texts with classes, and the model has no classifier of texts")
	case all[0].Classed:
		o := train.Classes{Several: c.Classifier.Several}
		p.Pooling, p.Objective = nn.PoolRank, o
		if to.classes = c.Classifier.Labels; to.classes == nil {
			for i := range c.Classifier.NScore {
				to.classes = append(to.classes, strconv.Itoa(i))
			}
		}
		to.named = slices.ContainsFunc(to.classes, isNumber)
		if p.Classes = to.classes; !o.Several && len(to.classes) > 1 {
			err = to.severalClasses(learn)
		}
	case all[0].Score != nil && p.Pooling == nn.PoolRank:
		return to, errors.New("cosines and margins are of vectors, and the model scores pairs of texts; give queries with texts that answer them, and texts that do not")
	case all[0].Score != nil && least == 1:
		p.Objective = train.Similarity{}
	case all[0].Score != nil:
		p.Objective = train.MarginMSE{}
	case p.Pooling == nn.PoolRank:
		to.paired = true
		if least == 1 {
			borrowed := min(standIns, len(learn)-1)
			if borrowed < 1 {
				return to, errors.New("a single query with its answer, and no text that is none")
			}
			to.documents += borrowed
		}
		p.Objective = train.Ranking{Texts: to.documents}
	default:
		to.among = least == 1
		p.Objective = train.Contrast{Texts: 1 + least, Temperature: p.Settings.Temperature}
	}
	return to, err
}

// severalClasses returns an error if all texts are of one class, of which nothing can be told apart.
func (to comparing) severalClasses(all []data.Comparison) error {
	var first []float32
	for i := range all {
		labels, err := to.labels(&all[i])
		if err != nil {
			return fmt.Errorf("%s: %w", all[i].Where, err)
		}
		if first == nil {
			first = labels
		}
		if !slices.Equal(labels, first) {
			return nil
		}
	}
	return fmt.Errorf("%s: label %.40q is that of all %d examples to learn, and a classifier tells classes apart; give examples of others",
		all[0].Where, all[0].Classes, len(all))
}

// severalQueries reports whether comparisons are of more than one query, if there are any.
func severalQueries(all []data.Comparison) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(x data.Comparison) bool { return x.Query != all[0].Query })
}

// texts encodes comparisons. Texts of more than most tokens are cut. What stands in are answers of others: nothing that is held
// out stands in for what is learnt.
func (to comparing) texts(e *Encoder, all, others []data.Comparison, most int) (texts []model.Text, c data.Counts, err error) {
	where := ""
	add := func(x model.Text) {
		x.Where = where
		c.Longest = max(c.Longest, len(x.Tokens))
		if n := len(x.Tokens); n > most { // what closes a text, such as [SEP], stays
			x.Tokens = append(slices.Clone(x.Tokens[:most-1]), x.Tokens[n-1])
			c.Cut++
		}
		if x.Second >= len(x.Tokens) {
			x.Second = 0
		}
		x.Weights = make([]float32, len(x.Tokens)) // no token is learnt
		c.Tokens += len(x.Tokens)
		texts = append(texts, x)
	}
	for i, x := range all {
		where = x.Where
		c.Examples++
		documents := slices.Clone(x.Documents[:min(to.documents, len(x.Documents))])
		for k := 1; len(documents) < to.documents; k++ { // those that follow, in a circle
			if k > len(others) {
				return nil, c, fmt.Errorf("%s: there are too few other answers to stand in for texts that are none; give some", x.Where)
			}
			other := &others[(i+k)%len(others)]
			if other.Query != x.Query && !slices.Contains(documents, other.Documents[0]) {
				documents = append(documents, other.Documents[0])
			}
		}
		switch {
		case x.Classed:
			labels, err := to.labels(&x)
			if err != nil {
				return nil, c, fmt.Errorf("%s: %w", x.Where, err)
			}
			text := model.Text{Labels: labels}
			if len(x.Documents) == 0 {
				text.Tokens = e.Text(x.Query)
			} else if text.Tokens, text.Second, err = e.Pair(x.Query, x.Documents[0]); err != nil {
				return nil, c, fmt.Errorf("%s: %w", x.Where, err)
			}
			add(text)
		case to.paired:
			for _, d := range documents {
				ids, second, err := e.Pair(x.Query, d)
				if err != nil {
					return nil, c, fmt.Errorf("%s: %w", x.Where, err)
				}
				add(model.Text{Tokens: ids, Second: second})
			}
		default:
			query := model.Text{Tokens: e.Query(x.Query)}
			if x.Score != nil {
				query.Labels = []float32{float32(*x.Score)}
			}
			add(query)
			for _, d := range documents {
				add(model.Text{Tokens: e.Document(d)})
			}
		}
	}
	c.Texts, c.Learnt = len(texts), c.Tokens
	return texts, c, nil
}

// labels returns the share of each class of the model in a text's.
func (to comparing) labels(x *data.Comparison) ([]float32, error) {
	labels := make([]float32, len(to.classes))
	for _, name := range x.Classes {
		at := slices.Index(to.classes, name)
		if n, err := strconv.Atoi(name); at < 0 && !to.named && err == nil && n >= 0 && n < len(to.classes) {
			at = n
		}
		if at < 0 {
			return nil, fmt.Errorf("label %.40q is none of the model's: %.200q", name, to.classes)
		}
		labels[at] = 1
	}
	return labels, nil
}

func isNumber(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// each is how many texts an example has.
func (p *Plan) each() int {
	if p.Objective == nil {
		return 1
	}
	return p.Objective.Each()
}

// room returns the tokens that examples take of a chunk, which has twice as many blocks of keys and values as its tokens fill.
func (p *Plan) room(texts []model.Text) int {
	tokens, blocks := 0, 0
	for _, x := range texts {
		tokens, blocks = tokens+len(x.Tokens), blocks+model.KVBlocks(len(x.Tokens))
	}
	return max(tokens, model.WholeBlocks(1)*((blocks+1)/2))
}

// compared returns the tokens of a step of texts that are compared.
func (p *Plan) compared() int {
	if p.Settings.Batch > 0 {
		return p.Settings.Batch
	}
	n := len(p.Texts) / p.each()
	examples := min(max(n/stepsOfComparisons, leastExamples), mostExamples, n)
	return (p.room(p.Texts)*examples + n - 1) / n
}
