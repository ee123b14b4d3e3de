package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/backend"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/backend/metrics"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/picker"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/profile"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/scorer"
	scheduled "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
)

// serve starts a server that runs one request at a time, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	c := exec.Command(path, "serve", "-m", "demo", "--port", port, "--parallel", "1", "-t", "1", "--vllm-metrics", "--drain", "1s")
	c.Stderr = t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		c.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			c.Process.Kill()
			<-ended
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get("http://" + address + "/v2/health/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return address
			}
		}
		select {
		case <-ended:
			t.Fatal("the server ended")
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the server does not get ready")
		}
	}
}

// The endpoint picker of the Gateway API's inference extension reads the gauges of two servers under the names that it has
// by default, and sends a request to the one that is idle.
func TestEndpointPicker(t *testing.T) {
	busy, idle := serve(t), serve(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 4 {
		go func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+busy+"/completion",
					strings.NewReader(`{"prompt":"Once upon a time","n_predict":-1,"ignore_eos":true,"stream":true,"n":4}`))
				if err != nil {
					panic(err)
				}
				if answer, err := http.DefaultClient.Do(r); err == nil {
					io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				} else {
					time.Sleep(20 * time.Millisecond)
				}
			}
		}()
	}
	names, err := metrics.NewMetricMapping("vllm:num_requests_waiting", "vllm:gpu_cache_usage_perc", "vllm:lora_requests_info", "vllm:cache_config_info")
	if err != nil {
		t.Fatal(err)
	}
	client := &metrics.PodMetricsClientImpl{MetricMapping: names, ModelServerMetricsPath: "/metrics", ModelServerMetricsScheme: "http", Client: http.DefaultClient}
	scrape := func(address string) *scheduled.PodMetrics {
		pod := &backend.Pod{NamespacedName: types.NamespacedName{Name: address}, MetricsHost: address}
		state, err := client.FetchMetrics(ctx, pod, &metrics.MetricsState{})
		if err != nil {
			t.Fatal(err)
		}
		return &scheduled.PodMetrics{Pod: pod, MetricsState: state}
	}
	a := scrape(busy)
	for end := time.Now().Add(time.Minute); a.WaitingQueueSize == 0 || a.KVCacheUsagePercent == 0; a = scrape(busy) {
		if time.Now().After(end) {
			t.Fatalf("nothing waits: %+v", a.MetricsState)
		}
		time.Sleep(20 * time.Millisecond)
	}
	b := scrape(idle)
	if b.WaitingQueueSize != 0 || b.KVCacheUsagePercent != 0 || a.KVCacheUsagePercent > 1 || b.CacheBlockSize <= 0 || b.CacheNumGPUBlocks <= 0 {
		t.Errorf("the busy one has %+v, the idle one %+v", a.MetricsState, b.MetricsState)
	}
	scores := framework.NewSchedulerProfile().WithScorers(framework.NewWeightedScorer(scorer.NewQueueScorer(), 2),
		framework.NewWeightedScorer(scorer.NewKVCacheUtilizationScorer(), 2)).WithPicker(picker.NewMaxScorePicker(1))
	scheduler := scheduling.NewSchedulerWithConfig(scheduling.NewSchedulerConfig(profile.NewSingleProfileHandler(),
		map[string]*framework.SchedulerProfile{"default": scores}))
	for i, pods := range [][]scheduled.Pod{{a, b}, {b, a}} {
		picked, err := scheduler.Schedule(ctx, &scheduled.LLMRequest{RequestId: fmt.Sprint(i), TargetModel: "demo"}, pods)
		if err != nil {
			t.Fatal(err)
		}
		if got := picked.ProfileResults[picked.PrimaryProfileName].TargetPods[0].GetPod().MetricsHost; got != idle {
			t.Errorf("%s is picked, and %s is idle", got, idle)
		}
	}
}
