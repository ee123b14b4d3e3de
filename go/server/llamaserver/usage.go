package llamaserver

import (
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

type (
	// A usageList is what GET /v1/usage shows.
	usageList struct {
		Object string     `json:"object"`
		Data   []keyUsage `json:"data"`
	}

	// A keyUsage is what was counted of a key, and what it may.
	keyUsage struct {
		Object  string      `json:"object"`
		ID      string      `json:"id"`             // the beginning of its hash; empty where there are no keys
		Name    string      `json:"name,omitempty"` // in the file of keys, or of a token's subject
		Tenant  string      `json:"tenant,omitempty"`
		Role    string      `json:"role"`
		Limits  keyLimits   `json:"limits"`
		Running int64       `json:"running"` // requests that wait or run, without those of batches
		Refused int64       `json:"refused"` // over a quota, since the start
		Minute  periodUsage `json:"minute"`
		Day     periodUsage `json:"day"`
		Start   periodUsage `json:"since_start"`
	}
	keyLimits struct {
		Minute     quota.Amounts `json:"minute"`
		Day        quota.Amounts `json:"day"`
		Concurrent int64         `json:"concurrent,omitzero"`
		Models     []string      `json:"models,omitempty"`
	}
	periodUsage struct {
		quota.Count
		Ends   int64                  `json:"ends,omitzero"` // Unix time
		Models map[string]quota.Count `json:"models"`
	}
)

// usage shows what was counted: an administrator of all keys, a user of the own one.
func (s *API) usage(req *answer.Request) error {
	if s.Keys == nil {
		return reply.Unsupported("this server does not count what its clients ask")
	}
	list := usageList{Object: "list", Data: []keyUsage{}}
	for _, k := range s.Keys() {
		if req.Caller.Admin || k.Account == req.Caller.Account {
			list.Data = append(list.Data, usageOf(k))
		}
	}
	req.Send(list)
	return nil
}

func usageOf(k quota.Key) keyUsage {
	u := k.Account.Usage()
	out := keyUsage{
		Object: "usage", ID: k.ID, Name: k.Name, Tenant: k.Tenant, Role: "user", Running: u.Running, Refused: u.Refused,
		Limits: keyLimits{u.Limits.Minute, u.Limits.Day, u.Limits.Concurrent, u.Limits.Models},
	}
	if k.Admin {
		out.Role = "admin"
	}
	for period, to := range []*periodUsage{quota.Minute: &out.Minute, quota.Day: &out.Day, quota.Since: &out.Start} {
		to.Count, to.Models = u.Sum(period), map[string]quota.Count{}
		if period < len(u.Ends) {
			to.Ends = u.Ends[period].Unix()
		}
		for name, c := range u.Models {
			if c[period] != (quota.Count{}) {
				to.Models[name] = c[period]
			}
		}
	}
	return out
}
