package telemetry

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt anew")

// number gives each number that v holds a value of its own, from n on.
func number(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				number(v.Field(i), n)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			number(v.Index(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		number(v.Elem(), n)
	case reflect.Int64:
		*n++
		if v.SetInt(int64(*n)); v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(*n) * int64(time.Millisecond))
		}
	case reflect.Int, reflect.Int32:
		*n++
		v.SetInt(int64(*n))
	case reflect.Uint64, reflect.Uint32:
		*n++
		v.SetUint(uint64(*n))
	case reflect.Float64:
		*n++
		v.SetFloat(float64(*n))
	}
}

var (
	machines = regexp.MustCompile(`\b(go_|process_|promhttp_|quern_cpu_|quern_build_info|quern_memory_|quern_disk_cache)`)
	timed    = regexp.MustCompile(`^(vllm:lora_requests_info\S*|\w+_sum\{\S*) \S+`)
	bucket   = regexp.MustCompile(`^(\w+_bucket)\{.*\b(le="[^"]+").*\n`)
)

// The names, labels and buckets of metrics are what dashboards and alerts elsewhere are made for: a change of the page is
// a change for them. Each number of the state has a value of its own there.
func TestPage(t *testing.T) {
	m, _ := full(t)
	n := 100
	var s engine.Status
	number(reflect.ValueOf(&s).Elem(), &n)
	s.KV.Bytes += 1000
	m.Model("c").Read(func() engine.Status { return s })
	m.http.WithLabelValues("/v1/x", "POST", "200").Inc()
	seen := map[string]bool{}
	var lines strings.Builder
	for line := range strings.Lines(page(t, m)) {
		if machines.MatchString(line) {
			continue
		}
		line = timed.ReplaceAllString(line, "$1")
		if b := bucket.FindStringSubmatch(line); b != nil { // of each metric once, without what is in it
			line = b[1] + " " + b[2] + "\n"
		}
		if !seen[line] {
			lines.WriteString(line)
		}
		seen[line] = true
	}
	page := lines.String()
	const path = "testdata/metrics.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if page != string(want) {
		t.Errorf("the page of metrics is not as in %s; -update writes it\n%s", path, page)
	}
}
