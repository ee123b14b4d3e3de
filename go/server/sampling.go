package server

import (
	"math"
	"math/rand/v2"

	"github.com/quern-llm/quern/go/sample"
)

// randomSeed is llama-server's unsigned equivalent of -1.
const randomSeed = 1<<32 - 1

// sampling holds the fields that control how tokens are chosen.
type sampling struct {
	params    sample.Params
	seed      int64
	samplers  samplerList
	bias      biases
	ignoreEOS bool
	breakers  texts
	form      form

	dynatempExponent, xtcThreshold, dryBase, dryLength, dryLastN, mirostatTau, mirostatEta, adaptiveDecay idle
}

func newSampling(m *Model) sampling {
	s := sampling{
		params: m.Sampling, seed: -1, breakers: texts{"\n", ":", "\"", "*"},
		dynatempExponent: 1, xtcThreshold: 0.1, dryBase: 1.75, dryLength: 2, dryLastN: 64, mirostatTau: 5, mirostatEta: 0.1, adaptiveDecay: 0.9,
	}
	if m.Seed != nil {
		s.seed = int64(*m.Seed)
	}
	return s
}

func (s *sampling) fields() []field {
	p := &s.params
	return []field{
		setting("temperature", float(&p.Temp, -100, 100), "Divides the logits; 0 or less takes the likeliest token."),
		setting("top_k", integer(&p.TopK, -1, math.MaxInt32), "Choose among so many of the likeliest tokens; 0 or -1 is all."),
		setting("top_p", float(&p.TopP, 0, 1), "Choose among the likeliest tokens that make up this probability; 1 is all."),
		setting("min_p", float(&p.MinP, 0, 1), "Leave out tokens less likely than this share of the likeliest; 0 is none."),
		setting("seed", integer(&s.seed, math.MinInt64, math.MaxInt64), "Of the choices: the same seed gives the same text under any load. -1 and 4294967295 are random."),
		setting("repeat_penalty", float(&p.RepeatPenalty, 0.01, 100), "Makes tokens seen already less likely; 1 does not."),
		setting("repeat_last_n", integer(&p.RepeatLastN, -1, 1<<24), "Tokens that the penalties look back at; 0 is none, -1 all."),
		setting("presence_penalty", float(&p.PresencePenalty, -100, 100), "Taken off the logit of each token seen."),
		setting("frequency_penalty", float(&p.FrequencyPenalty, -100, 100), "The same, for each time it was seen."),
		setting("logit_bias", &s.bias, "Added to the logits of tokens, given by id or by text; false bans them."),
		setting("ignore_eos", boolean{&s.ignoreEOS}, "Go on where the model would end."),
		setting("samplers", &s.samplers, "Which samplers are used, in the order that is fixed: penalties, top_k, top_p, min_p, temperature."),
		setting("dynatemp_range", always(0), "Dynamic temperature."),
		setting("dynatemp_exponent", &s.dynatempExponent, "Of the dynamic temperature; without effect."),
		setting("typical_p typ_p", within(1, 1, math.MaxFloat64, "1"), "Locally typical sampling."),
		setting("top_n_sigma", within(-1, -math.MaxFloat64, 0, "0 or less"), "Top-n-sigma sampling."),
		setting("xtc_probability", always(0), "XTC sampling."),
		setting("xtc_threshold", &s.xtcThreshold, "Of XTC sampling; without effect."),
		setting("dry_multiplier", always(0), "DRY sampling."),
		setting("dry_base", &s.dryBase, "Of DRY sampling; without effect."),
		setting("dry_allowed_length", &s.dryLength, "Of DRY sampling; without effect."),
		setting("dry_penalty_last_n", &s.dryLastN, "Of DRY sampling; without effect."),
		setting("dry_sequence_breakers", &s.breakers, "Of DRY sampling; without effect."),
		setting("mirostat", always(0), "Mirostat sampling."),
		setting("mirostat_tau", &s.mirostatTau, "Of Mirostat sampling; without effect."),
		setting("mirostat_eta", &s.mirostatEta, "Of Mirostat sampling; without effect."),
		setting("adaptive_target", within(-1, -math.MaxFloat64, -math.SmallestNonzeroFloat64, "less than 0"), "Adaptive-p sampling."),
		setting("adaptive_decay", &s.adaptiveDecay, "Of adaptive-p sampling; without effect."),
		setting("min_keep", within(0, 0, 1, "0 or 1"), "Least tokens that samplers leave."),
		setting("grammar_lazy", empty(false), "Begins the grammar late."),
		setting("lora", empty([]any{}), "LoRA adapters."),
	}
}

// settle resolves special values of the fields.
func (s *sampling) settle(m *Model) error {
	s.params.Temp = max(s.params.Temp, 0)
	s.samplers.apply(&s.params)
	if err := s.params.Validate(); err != nil {
		return bad("%v", err)
	}
	if s.seed == -1 || s.seed == randomSeed {
		s.seed = int64(rand.Uint32N(randomSeed)) // reported, so that the answer can be reproduced
	}
	s.params.Seed = uint64(s.seed)
	return s.bias.settle(m, s.ignoreEOS)
}
