package kubernetes_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	inference "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the types of what the chart makes.
var kinds = map[string]func() any{
	"Deployment":            func() any { return new(apps.Deployment) },
	"Service":               func() any { return new(core.Service) },
	"ConfigMap":             func() any { return new(core.ConfigMap) },
	"PersistentVolumeClaim": func() any { return new(core.PersistentVolumeClaim) },
	"PodDisruptionBudget":   func() any { return new(policy.PodDisruptionBudget) },
	"NetworkPolicy":         func() any { return new(networking.NetworkPolicy) },
	"PodMonitor":            func() any { return new(monitoring.PodMonitor) },
	"PrometheusRule":        func() any { return new(monitoring.PrometheusRule) },
	"ScaledObject":          func() any { return new(keda.ScaledObject) },
	"InferencePool":         func() any { return new(inference.InferencePool) },
}

// render returns what the chart makes of values, by kind.
func render(t *testing.T, values string) (map[string]any, error) {
	t.Helper()
	chart, err := loader.Load("helm/quern")
	if err != nil {
		t.Fatal(err)
	}
	set, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, set, chartutil.ReleaseOptions{Name: "quern", Namespace: "llm"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := (engine.Engine{Strict: true}).Render(chart, all)
	if err != nil {
		return nil, err
	}
	made := map[string]any{}
	for name, text := range files {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		for _, doc := range documents(t, name, []byte(text)) {
			v := read(t, name, doc)
			kind := reflect.TypeOf(v).Elem().Name()
			if made[kind] != nil {
				t.Errorf("two of %s", kind)
			}
			made[kind] = v
		}
	}
	return made, nil
}

// documents returns the documents of a file that have something in them.
func documents(t *testing.T, name string, b []byte) (all [][]byte) {
	t.Helper()
	for d := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(b))); ; {
		doc, err := d.Read()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var any map[string]any
		if err := yaml.Unmarshal(doc, &any); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		if len(any) > 0 {
			all = append(all, doc)
		}
	}
}

// read reads a document as the type of its kind, which has all of its fields.
func read(t *testing.T, name string, doc []byte) any {
	t.Helper()
	var is struct{ Kind string }
	if err := yaml.Unmarshal(doc, &is); err != nil || kinds[is.Kind] == nil {
		t.Fatalf("%s: the kind %q, %v", name, is.Kind, err)
	}
	v := kinds[is.Kind]()
	if err := yaml.UnmarshalStrict(doc, v); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, doc)
	}
	return v
}

func must(t *testing.T, values string) map[string]any {
	t.Helper()
	made, err := render(t, values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return made
}

// everything turns on what is off by default.
const everything = `
autoscaling: {enabled: true}
networkPolicy: {enabled: true}
podMonitor: {enabled: true}
rules: {enabled: true}
dashboard: {enabled: true}
`

// What the chart makes are objects of Kubernetes that fit each other, for each source of models.
func TestChart(t *testing.T) {
	for source, c := range map[string]struct {
		values string
		args   []string
	}{
		"claim": {"model: {source: claim}\nkeys: {secret: quern-keys}", []string{"serve", "--models-dir", "/models", "--api-key-file"}},
		"path": {"model: {source: claim, path: a/b.gguf, claim: {name: shared}}\nhosts: [a.example, b.example]",
			[]string{"serve", "-m", "/models/a/b.gguf", "a.example,b.example"}},
		"pull":  {"model: {source: pull, pull: {name: hf.co/a/b, tokenSecret: hf}}", []string{"serve", "-m", "hf.co/a/b", "--model-cache", "/models", "--offline"}},
		"image": {"model: {source: image, image: {reference: registry/m:1}}\ncache: {size: ''}\ninferencePool: {enabled: true}", []string{"serve", "-m", "/models", "--vllm-metrics", "--allowed-hosts", "*"}},
	} {
		made := must(t, c.values+everything)
		deployment := made["Deployment"].(*apps.Deployment)
		pod := deployment.Spec.Template.Spec
		args := pod.Containers[0].Args
		for i, want := range c.args {
			if i < 3 && args[i] != want || !slices.Contains(args, want) {
				t.Errorf("%s: %q, want %q", source, args, c.args)
			}
		}
		accepted(t, args)
		for _, init := range pod.InitContainers {
			accepted(t, init.Args)
		}
		if (len(pod.InitContainers) > 0) != (source == "pull") || (made["PersistentVolumeClaim"] != nil) != (source == "claim") {
			t.Errorf("%s: %d init containers, a claim %v", source, len(pod.InitContainers), made["PersistentVolumeClaim"] != nil)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: there is no volume %s", source, m.Name)
			}
			delete(volumes, m.Name)
		}
		if len(volumes) > 0 {
			t.Errorf("%s: %v is not mounted", source, volumes)
		}
		if deployment.Spec.Replicas != nil {
			t.Errorf("%s: %d replicas, which KEDA sets", source, *deployment.Spec.Replicas)
		}
		labels := deployment.Spec.Template.Labels
		for what, selector := range map[string]map[string]string{
			"Deployment": deployment.Spec.Selector.MatchLabels, "Service": made["Service"].(*core.Service).Spec.Selector,
			"PodDisruptionBudget": made["PodDisruptionBudget"].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels,
			"NetworkPolicy":       made["NetworkPolicy"].(*networking.NetworkPolicy).Spec.PodSelector.MatchLabels,
			"PodMonitor":          made["PodMonitor"].(*monitoring.PodMonitor).Spec.Selector.MatchLabels,
		} {
			for k, v := range selector {
				if len(selector) != 2 || labels[k] != v {
					t.Errorf("%s: %s selects %v, pods are %v", source, what, selector, labels)
				}
			}
		}
		scaled := made["ScaledObject"].(*keda.ScaledObject)
		if scaled.Spec.ScaleTargetRef.Name != deployment.Name {
			t.Errorf("%s is scaled", scaled.Spec.ScaleTargetRef.Name)
		}
		if _, err := parser.ParseExpr(scaled.Spec.Triggers[0].Metadata["query"]); err != nil {
			t.Errorf("%s: %v", source, err)
		}
		if pool, ok := made["InferencePool"].(*inference.InferencePool); ok != (source == "image") || ok &&
			(len(pool.Spec.Selector.MatchLabels) != 2 || pool.Spec.TargetPorts[0].Number != 8080) {
			t.Errorf("%s: the pool is %+v", source, pool)
		}
		if egress := made["NetworkPolicy"].(*networking.NetworkPolicy).Spec.Egress; (len(egress) > 0) != (source == "pull") {
			t.Errorf("%s: pods may reach %v", source, egress)
		}
		if boards := made["ConfigMap"].(*core.ConfigMap).Data; !json.Valid([]byte(boards["quern.json"])) || len(boards["quern.json"]) < 1000 {
			t.Errorf("%s: the dashboard is %.100q", source, boards["quern.json"])
		}
		if n := len(made["PrometheusRule"].(*monitoring.PrometheusRule).Spec.Groups); n == 0 {
			t.Errorf("%s: no rules", source)
		}
	}
}

// What is off is not there, and values that do not go together are refused.
func TestValues(t *testing.T) {
	made := must(t, "replicas: 3")
	if len(made) != 4 || *made["Deployment"].(*apps.Deployment).Spec.Replicas != 3 {
		t.Errorf("%v", made)
	}
	for values, word := range map[string]string{
		"model: {source: nfs}":                              "want claim, pull or image",
		"model: {source: pull}":                             "model.pull.name",
		"model: {source: image}":                            "model.image.reference",
		"keys: {secret: a}\ninferencePool: {enabled: true}": "without a key",
		"inferencePool: {enabled: true}":                    "networkPolicy.enabled",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// The base of Kustomize has the pod that the chart makes of these values.
func TestBase(t *testing.T) {
	want := must(t, "keys: {secret: quern-keys}\nspread: {enabled: false}")["Deployment"].(*apps.Deployment).Spec.Template.Spec
	b, err := os.ReadFile("../../scripts/deploy/kubernetes/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, "deployment.yaml", documents(t, "deployment.yaml", b)[0]).(*apps.Deployment).Spec.Template.Spec
	c := &got.Containers[0]
	c.Image, c.ImagePullPolicy = want.Containers[0].Image, want.Containers[0].ImagePullPolicy // which an overlay sets
	if g, w := marshal(t, got), marshal(t, want); g != w {
		t.Errorf("the base has\n%s\nthe chart\n%s", g, w)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The alerts are rules of Prometheus.
func TestAlerts(t *testing.T) {
	rules, errs := rulefmt.ParseFile("helm/quern/files/alerts.yaml", false, model.UTF8Validation)
	if len(errs) > 0 || len(rules.Groups) == 0 {
		t.Errorf("%v", errs)
	}
}

// A servingRuntime is what KServe's runtime has here of its type.
type servingRuntime struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Annotations           map[string]string `json:"annotations"`
		SupportedModelFormats []struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AutoSelect bool   `json:"autoSelect"`
			Priority   int32  `json:"priority"`
		} `json:"supportedModelFormats"`
		ProtocolVersions []string         `json:"protocolVersions"`
		Containers       []core.Container `json:"containers"`
		Volumes          []core.Volume    `json:"volumes"`
	} `json:"spec"`
}

// An inferenceService is what KServe's service has here of its type.
type inferenceService struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Predictor struct {
			MinReplicas int32 `json:"minReplicas"`
			Model       struct {
				ModelFormat struct {
					Name string `json:"name"`
				} `json:"modelFormat"`
				StorageURI string                    `json:"storageUri"`
				Resources  core.ResourceRequirements `json:"resources"`
			} `json:"model"`
		} `json:"predictor"`
	} `json:"spec"`
}

// KServe's runtime serves what its storage initializer mounts, and the service names a format of it.
func TestKServe(t *testing.T) {
	var runtime servingRuntime
	var service inferenceService
	for name, v := range map[string]any{"kserve/runtime.yaml": &runtime, "kserve/service.yaml": &service} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(b, v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runtime.Spec.SupportedModelFormats[0].Name != service.Spec.Predictor.Model.ModelFormat.Name {
		t.Errorf("%+v is for %+v", runtime.Spec.SupportedModelFormats, service.Spec.Predictor.Model)
	}
	c := runtime.Spec.Containers[0]
	if c.Name != "kserve-container" || !slices.Contains(c.Args, "/mnt/models") {
		t.Errorf("%s is started with %q", c.Name, c.Args)
	}
	accepted(t, c.Args)
}
