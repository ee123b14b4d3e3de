package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// metrics are the lines of /metrics, by name with labels.
type metrics map[string]float64

func readMetrics(ctx context.Context, c *client) (metrics, error) {
	status, b, err := c.get(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	if status != 200 {
		return nil, fmt.Errorf("/metrics: status %d", status)
	}
	m := metrics{}
	in := bufio.NewScanner(bytes.NewReader(b))
	for in.Scan() {
		line := in.Text()
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
				m[line[:at]] = v
			}
		}
	}
	return m, in.Err()
}

// sum adds up the lines of a name that have the label, if it is not empty.
func (m metrics) sum(name string, label ...string) (total float64) {
	for key, v := range m {
		bare, labels, _ := strings.Cut(key, "{")
		if bare == name && (len(label) == 0 || strings.Contains(labels, label[0])) {
			total += v
		}
	}
	return total
}

// A floor is what a server has while nobody asks.
type floor struct {
	RSS        uint64 `json:"rss"`
	Goroutines int    `json:"goroutines"`
	FDs        int    `json:"fds"`
	Used       uint64 `json:"kv_used"`
	Leases     int    `json:"leases"`
	Running    int    `json:"running"`
}

func (m metrics) floor() floor {
	return floor{
		RSS: uint64(m["process_resident_memory_bytes"]), Goroutines: int(m["go_goroutines"]), FDs: int(m["process_open_fds"]),
		Used: uint64(m.sum("quern_kv_bytes", `state="used"`)), Leases: int(m.sum("quern_model_leases")),
		Running: int(m.sum("llamacpp:requests_processing") + m.sum("llamacpp:requests_deferred") + m.sum("quern_requests_parked")),
	}
}
