package quota

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits are what the requests of a key may be and have; 0 is no limit. A minute's are refilled continuously, a day's at
// midnight (UTC).
type Limits struct {
	Minute, Day Amounts
	Concurrent  int64    // requests that wait or run at a time
	Models      []string // that may be asked, by any of their names; nil: all
}

// Amounts are numbers of requests and of tokens.
type Amounts struct {
	Requests int64 `json:"requests,omitzero"`
	Input    int64 `json:"input_tokens,omitzero"`
	Output   int64 `json:"output_tokens,omitzero"`
}

// maxLimit is the largest limit, for plausibility.
const maxLimit = 1_000_000_000_000

// maxModels is how many models a key may be restricted to.
const maxModels = 1000

// numbers returns the limits by their words.
func (l *Limits) numbers() map[string]*int64 {
	return map[string]*int64{
		"rpm": &l.Minute.Requests, "rpd": &l.Day.Requests, "tpm-in": &l.Minute.Input, "tpm-out": &l.Minute.Output,
		"tpd-in": &l.Day.Input, "tpd-out": &l.Day.Output, "concurrent": &l.Concurrent,
	}
}

// Words are those that Set knows, as they are written.
const Words = "rpm=N, rpd=N, tpm-in=N, tpm-out=N, tpd-in=N, tpd-out=N, concurrent=N, models=A,B"

// Set sets the limit that a word such as rpm=60 gives. known is false if it is none.
func (l *Limits) Set(word string) (known bool, err error) {
	name, value, ok := strings.Cut(word, "=")
	if !ok {
		return false, nil
	}
	if name == "models" {
		if l.Models != nil {
			return true, fmt.Errorf("models= is there twice, want it once")
		}
		l.Models = strings.Split(value, ",")
		if slices.Contains(l.Models, "") || len(l.Models) > maxModels {
			return true, fmt.Errorf("models= is not followed by names of models with commas between them, at most %d", maxModels)
		}
		return true, nil
	}
	to := l.numbers()[name]
	if to == nil {
		return false, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case *to != 0:
		return true, fmt.Errorf("%s= is there twice, want it once", name)
	case err != nil || n < 1 || n > maxLimit:
		return true, fmt.Errorf("%s= is not followed by an integer from 1 to %d", name, int64(maxLimit))
	}
	*to = n
	return true, nil
}

// Allows reports whether who may ask some models, nil being all, may ask one that has these names.
func Allows(models []string, names ...string) bool {
	return models == nil || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(models, name) })
}

// Counted reports whether there is a limit that changes with what is asked: headers of answers tell of these.
func (l *Limits) Counted() bool { return l.Minute != Amounts{} || l.Day != Amounts{} }
