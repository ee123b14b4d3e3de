package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A page is part of a list.
type page[T any] struct {
	Object string  `json:"object"`
	Data   []T     `json:"data"`
	First  *string `json:"first_id"`
	Last   *string `json:"last_id"`
	More   bool    `json:"has_more"`
}

// A paging is how a list is sent in pages.
type paging struct {
	order       string // asc or desc, where the request does not say
	usual, most int    // items of a page
}

// params are its parameters, of which pageOf takes the values.
func (p paging) params(more ...answer.Param) []answer.Param {
	return append([]answer.Param{
		{In: "query", Name: "limit", Doc: fmt.Sprintf("At most so many, by default %d.", p.usual),
			Is: field.Schema{"type": "integer", "minimum": 1, "maximum": p.most}},
		{In: "query", Name: "order", Doc: "The oldest or the newest first, by default " + p.order + ".",
			Is: field.Schema{"enum": []string{"asc", "desc"}}},
		{In: "query", Name: "after", Doc: "Only what comes after the item with this id.", Is: nil},
	}, more...)
}

// read returns how many items the query asks for at most, and whether the newest are first.
func (p paging) read(req *answer.Request) (limit int, newest bool, err error) {
	limit = p.usual
	if text := req.HTTP.Query("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > p.most {
			return 0, false, reply.Invalid("limit", "%s, want 1 to %d", field.Quote(text), p.most)
		}
	}
	order := cmp.Or(req.HTTP.Query("order"), p.order)
	if order != "asc" && order != "desc" {
		return 0, false, reply.Invalid("order", "%s, want asc or desc", field.Quote(order))
	}
	return limit, order == "desc", nil
}

// pageOf returns the part of a list, which begins with the oldest and may be changed, that the query asks for.
func pageOf[T any](req *answer.Request, list []T, id func(T) string, p paging) (page[T], error) {
	all := page[T]{Object: "list", Data: []T{}}
	limit, newest, err := p.read(req)
	if err != nil {
		return all, err
	}
	if newest {
		slices.Reverse(list)
	}
	if after := req.HTTP.Query("after"); after != "" {
		i := slices.IndexFunc(list, func(v T) bool { return id(v) == after })
		if i < 0 {
			return all, reply.Invalid("after", "%s is not in the list", field.Quote(after))
		}
		list = list[i+1:]
	}
	all.More = len(list) > limit
	all.Data = append(all.Data, list[:min(limit, len(list))]...)
	if n := len(all.Data); n > 0 {
		first, last := id(all.Data[0]), id(all.Data[n-1])
		all.First, all.Last = &first, &last
	}
	return all, nil
}
