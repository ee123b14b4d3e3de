package ask

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// randomSeed is llama-server's unsigned equivalent of -1.
const randomSeed = 1<<32 - 1

// sampling holds the fields that control how tokens are chosen.
type sampling struct {
	Params    sample.Params
	seed      int64
	samplers  samplerList
	Bias      biases
	IgnoreEOS bool
	LoRA      AdapterUses
	breakers  breakers
	Form      Held
}

func newSampling(m *Model) sampling {
	s := sampling{
		Params: m.Sampling, seed: -1, samplers: samplerList{letters: m.Sampling.Chain},
		breakers: breakers{sample.DefaultBreakers},
	}
	if m.Seed != nil {
		s.seed = int64(*m.Seed)
	}
	return s
}

func (s *sampling) Fields() []field.Field {
	p := &s.Params
	return []field.Field{
		field.Setting("temperature", field.Float(&p.Temp, -100, 100),
			"Divides the logits; 0 or less takes the likeliest token."),
		field.Setting("top_k", field.Integer(&p.TopK, -1, math.MaxInt32),
			"Choose among so many of the likeliest tokens; 0 or -1 is all."),
		field.Setting("top_p", field.Float(&p.TopP, 0, 1),
			"Choose among the likeliest tokens that make up this probability; 1 is all."),
		field.Setting("min_p", field.Float(&p.MinP, 0, 1),
			"Leave out tokens less likely than this share of the likeliest; 0 is none."),
		field.Setting("seed", field.Integer(&s.seed, math.MinInt64, math.MaxInt64),
			"Of the choices: the same seed gives the same text under any load. -1 and 4294967295 are random."),
		field.Setting("repeat_penalty repetition_penalty", field.Float(&p.RepeatPenalty, 0.01, 100),
			"Makes tokens seen already less likely; 1 does not."),
		field.Setting("repeat_last_n", field.Integer(&p.RepeatLastN, -1, 1<<24),
			"Tokens that the penalties look back at; 0 is none, -1 all."),
		field.Setting("presence_penalty", field.Float(&p.PresencePenalty, -100, 100),
			"Taken off the logit of each token seen."),
		field.Setting("frequency_penalty", field.Float(&p.FrequencyPenalty, -100, 100),
			"The same, for each time it was seen."),
		field.Setting("logit_bias", &s.Bias, "Added to the logits of tokens, given by id or by text; false bans them."),
		field.Setting("ignore_eos", field.Boolean(&s.IgnoreEOS), "Go on where the model would end."),
		field.Setting("samplers", &s.samplers, "Which samplers are used, in their order; one may be there twice."),
		field.Setting("min_keep", field.Integer(&p.MinKeep, 0, math.MaxInt32),
			"Least tokens that typical, top-p, min-p and XTC leave."),
		field.Setting("dynatemp_range", field.Float(&p.DynRange, -100, 100),
			"The temperature is higher or lower by up to this, by the entropy; 0 or less is not."),
		field.Setting("dynatemp_exponent", field.Float(&p.DynExponent, 0, 100), "How the entropy maps to that range."),
		field.Setting("typical_p typ_p", field.Float(&p.TypicalP, 0, 100),
			"Choose among the tokens of the most expected surprise that make up this probability; 1 or more is all."),
		field.Setting("top_n_sigma", field.Float(&p.TopNSigma, -100, 100),
			"Leave out logits so many standard deviations below the largest; 0 or less is none."),
		field.Setting("xtc_probability", field.Float(&p.XTCProbability, 0, 1),
			"How often the likeliest tokens are left out; 0 is never."),
		field.Setting("xtc_threshold", field.Float(&p.XTCThreshold, 0, 1),
			"Those are the tokens of at least this probability, all but the least likely of them; above 0.5 is none."),
		field.Setting("dry_multiplier", field.Float(&p.DryMultiplier, -100, 100),
			"Makes tokens that would continue a repeated sequence less likely; 0 does not."),
		field.Setting("dry_base", field.Float(&p.DryBase, -100, 100),
			"That penalty grows by this factor with each repeated token; less than 1 is the default."),
		field.Setting("dry_allowed_length", field.Integer(&p.DryAllowedLength, 0, 1<<24),
			"Repetitions up to this length are free."),
		field.Setting("dry_penalty_last_n", field.Integer(&p.DryLastN, -1, 1<<24),
			"Tokens that DRY looks back at; 0 is none, -1 all."),
		field.Setting("dry_sequence_breakers", &s.breakers, "Texts that end a repetition."),
		field.Setting("mirostat", field.Integer(&p.Mirostat, 0, 2),
			"Mirostat 1 or 2 instead of all samplers but the temperature; 0 is neither."),
		field.Setting("mirostat_tau", field.Float(&p.MirostatTau, 0, 100), "The surprise that Mirostat holds, in bits."),
		field.Setting("mirostat_eta", field.Float(&p.MirostatEta, 0, 100), "How fast Mirostat corrects it."),
		field.Setting("adaptive_target", field.Float(&p.AdaptiveTarget, -100, 1),
			"Choose tokens of about this probability; less than 0 does not. Where samplers are listed, adaptive_p has to be "+
				"one of them."),
		field.Setting("adaptive_decay", field.Float(&p.AdaptiveDecay, 0, 0.99),
			"How much of what was chosen before counts for that, for each token."),
		field.Setting("lora", &s.LoRA, "LoRA adapters, by id, and their scales; others are not used. By default as "+
			"/lora-adapters has them, or the one that the request names as its model."),
	}
}

// settle resolves special values of the fields.
func (s *sampling) settle(m *Model) error {
	p := &s.Params
	p.Temp, p.TypicalP = max(p.Temp, 0), min(p.TypicalP, 1)
	if p.DryBase < 1 {
		p.DryBase = max(m.Sampling.DryBase, 1)
	}
	s.samplers.apply(p)
	if p.DryMultiplier != 0 && len(s.breakers.Texts) > 0 {
		p.DryBreakers = m.samplers.Breakers(s.breakers.Texts)
	}
	if strings.ContainsRune(p.Chain, 'i') {
		p.Infill = m.samplers.Infill()
	}
	if err := s.Params.Validate(); err != nil {
		return reply.Bad("%v", err)
	}
	if s.seed == -1 || s.seed == randomSeed {
		s.seed = int64(rand.Uint32N(randomSeed)) // reported, so that the answer can be reproduced
	}
	s.Params.Seed = uint64(s.seed)
	return s.Bias.Settle(m, s.IgnoreEOS)
}
