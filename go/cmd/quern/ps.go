package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/mem"
)

// clientFlags are the flags of commands that ask a server: where it is, as "quern serve" has them.
type clientFlags struct {
	host   string
	port   int
	prefix string
	key    string
}

// psFlags are the flags of "quern ps".
type psFlags struct {
	clientFlags
	asJSON bool
}

func newPsCommand() *cobra.Command {
	var f psFlags
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show the models and the memory use of a running server",
		Long: `Show the models of a running server, their requests, and its memory use: the data of
GET /v1/memory as text.`,
		Example: `  quern ps
  quern ps --port 9000 --api-key "$KEY"
  quern ps --host https://llm.example.com --json`,
		Args: flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	f.define(fs)
	fs.StringVar(&f.key, "api-key", "", "API `KEY` of the server")
	fs.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// define adds the flags that say where the server is.
func (f *clientFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.host, "host", "127.0.0.1", "`ADDRESS` of the server, the path of its socket, or its URL")
	intVar(fs, &f.port, "port", "", 8080, 1, 65535, "its port")
	fs.StringVar(&f.prefix, "api-prefix", "", "`PATH` prefix of all endpoints, such as /llm")
}

// base returns the URL of the server, and how to connect to it.
func (f *clientFlags) base() (string, *http.Transport, error) {
	t := &http.Transport{}
	prefix := strings.TrimRight("/"+strings.TrimLeft(f.prefix, "/"), "/")
	switch {
	case f.host == "":
		return "", nil, usagef("--host is empty, want an address such as 127.0.0.1")
	case strings.HasSuffix(f.host, ".sock"):
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", f.host)
		}
		return "http://localhost" + prefix, t, nil
	case strings.Contains(f.host, "://"):
		u, err := url.Parse(f.host)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", nil, usagef("--host %q is no URL, want one such as https://llm.example.com", f.host)
		}
		return strings.TrimRight(f.host, "/") + prefix, t, nil
	}
	return "http://" + net.JoinHostPort(f.host, strconv.Itoa(f.port)) + prefix, t, nil
}

// get asks the server for a path. It also returns where the server is, as messages name it.
func (f *clientFlags) get(ctx context.Context, path string) (r *http.Response, where string, err error) {
	base, transport, err := f.base()
	if err != nil {
		return nil, f.host, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return nil, f.host, usagef("--host %q: %w", f.host, err)
	}
	if f.key != "" {
		req.Header.Set("Authorization", "Bearer "+f.key)
	}
	where = f.host
	if !strings.Contains(where, "/") {
		where = net.JoinHostPort(f.host, strconv.Itoa(f.port))
	}
	if r, err = (&http.Client{Transport: transport}).Do(req); err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // the URL stands in the message
		}
		return nil, where, fmt.Errorf("no server answers at %s: %w; \"quern serve\" starts one, and --host and --port say where it is", where, err)
	}
	return r, where, nil
}

// memoryUse is what a server says at /v1/memory, as far as it is shown.
type memoryUse struct {
	Object    string
	Limit     uint64
	LimitedBy string `json:"limited_by"`
	Used      uint64
	Free      uint64
	Pressure  string
	Resident  uint64
	Anonymous uint64
	Most      uint64 `json:"resident_peak"`
	Purposes  []struct {
		Purpose string
		Bytes   uint64
	}
	Models []struct {
		ID      string
		State   string
		Bytes   uint64
		File    uint64
		Context int
		Running int
		Waiting int
		KV      struct{ Bytes, Most, Used, Cached uint64 }
		Stream  *struct {
			How                            string
			Bytes, Kept, Ring, Cache, Read uint64
			Waited                         float64
			Hits, Misses, Errors           uint64
		} `json:"streamed"`
		Drafts *struct {
			Path        string
			Bytes, File uint64
			Context     int
			KV          struct{ Bytes, Used, Cached uint64 }
		} `json:"draft"`
	}
	Disk *struct {
		Bytes, Limit, Read, Written, Removed uint64
		Pages                                int
	}
	CPU struct {
		Threads   int
		Throttled float64 `json:"throttled_seconds"`
		Steal     float64 `json:"steal_seconds"`
	}
}

// maxUse bounds the answer of a server, which may be any.
const maxUse = 1 << 20

// run implements "quern ps".
func (f *psFlags) run(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, where, err := f.get(ctx, "/v1/memory")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxUse))
	if err != nil {
		return fmt.Errorf("the server at %s: %w", where, err)
	}
	if r.StatusCode != http.StatusOK {
		var said struct{ Error struct{ Message string } }
		_ = json.Unmarshal(body, &said) // of another server it may be anything
		return fmt.Errorf("the server at %s says %s%s", where, r.Status, orNothing(": ", said.Error.Message))
	}
	if f.asJSON {
		_, err := fmt.Fprintln(w, strings.TrimSpace(string(body)))
		return err
	}
	var u memoryUse
	if err := json.Unmarshal(body, &u); err != nil || u.Object != "memory" {
		return fmt.Errorf("what answers at %s is no Quern, or an older one", where)
	}
	return printUse(w, &u)
}

func orNothing(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// printUse writes a server's use of memory for people.
func printUse(w io.Writer, u *memoryUse) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	size := mem.FormatBytes
	fmt.Fprintf(t, "MODEL\tSTATE\tUSED\tRESERVED\tFILE\tCONTEXT\tRUNNING\tWAITING\tKEYS AND VALUES\n")
	for _, m := range u.Models {
		kv := fmt.Sprintf("%s used, %s cached, of %s", size(m.KV.Used), size(m.KV.Cached), size(m.KV.Bytes))
		if m.KV.Bytes < m.KV.Most {
			kv += fmt.Sprintf(" (%s when memory is not short)", size(m.KV.Most))
		}
		// What is reserved for keys and values takes memory only as it is used.
		used := m.Bytes - min(m.Bytes, m.KV.Bytes-min(m.KV.Bytes, m.KV.Used+m.KV.Cached))
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", visible(m.ID), visible(m.State), size(used), size(m.Bytes), size(m.File), m.Context, m.Running, m.Waiting, kv)
	}
	if len(u.Models) == 0 {
		fmt.Fprintf(t, "(none is loaded)\n")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range u.Models {
		if d := m.Drafts; d != nil {
			fmt.Fprintf(w, "\n%s: %s drafts for it, and takes %s of its memory: context %d, %s of keys and values used, %s cached, of %s\n",
				visible(m.ID), visible(filepath.Base(d.Path)), size(d.Bytes), d.Context, size(d.KV.Used), size(d.KV.Cached), size(d.KV.Bytes))
		}
		if st := m.Stream; st != nil {
			fmt.Fprintf(w, "\n%s: %s of weights are streamed (%s), %s stay", visible(m.ID), size(st.Bytes), visible(st.How), size(st.Kept))
			if st.Cache > 0 {
				fmt.Fprintf(w, ", %s for experts, of which %.0f %% were there", size(st.Cache), 100*float64(st.Hits)/float64(max(st.Hits+st.Misses, 1)))
			}
			fmt.Fprintf(w, "; %s read, %.1f s waited, %d errors\n", size(st.Read), st.Waited, st.Errors)
		}
	}
	fmt.Fprintf(w, "\nreserved: %s of %s (%s), pressure: %s\n", size(u.Used), size(u.Limit), u.LimitedBy, u.Pressure)
	for _, p := range u.Purposes {
		fmt.Fprintf(t, "  %s\t%s\n", p.Purpose, size(p.Bytes))
	}
	fmt.Fprintf(t, "  free\t%s\n", size(u.Free))
	fmt.Fprintf(t, "in memory now\t%s, of it %s of files; %s at most so far\n", size(u.Resident), size(u.Resident-min(u.Resident, u.Anonymous)), size(u.Most))
	if d := u.Disk; d != nil {
		fmt.Fprintf(t, "on disk\t%s of %s in %d pages; %d read, %d written, %d removed for want of room\n", size(d.Bytes), size(d.Limit), d.Pages, d.Read, d.Written, d.Removed)
	}
	fmt.Fprintf(t, "threads\t%d; %.1f s throttled, %.1f s stolen\n", u.CPU.Threads, u.CPU.Throttled, u.CPU.Steal)
	return t.Flush()
}
