package auth

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"kaas/meta"
)

// Quota keys as they travel on the wire (Kafka's QuotaConfig).
const (
	QuotaProducerByteRate  = "producer_byte_rate"
	QuotaConsumerByteRate  = "consumer_byte_rate"
	QuotaRequestPercentage = "request_percentage"
)

type quotaSpec struct {
	Producer   *float64 `json:"producerMaxByteRatePerBroker"`
	Consumer   *float64 `json:"consumerMaxByteRatePerBroker"`
	Percentage *float64 `json:"requestPercentage"`
}

// QuotasInForce are the override, else those of the spec.
func (u *User) QuotasInForce() map[string]float64 {
	if u.QuotaOverride != nil {
		return u.QuotaOverride
	}
	return u.Quotas
}

// ParseQuotas reads what a resource says of quotas, in its spec and over it.
func ParseQuotas(resource *meta.KafkaUser) (quotas, override map[string]float64, err error) {
	if quotas, err = specQuotas(resource.Spec.Quotas); err == nil {
		override, err = ParseQuotaOverride(resource)
	}
	return quotas, override, err
}

func specQuotas(part map[string]any) (map[string]float64, error) {
	var spec quotaSpec
	if err := remarshal(part, &spec); err != nil {
		return nil, fmt.Errorf("spec.quotas: %w", err)
	}
	var quotas map[string]float64
	for key, value := range map[string]*float64{QuotaProducerByteRate: spec.Producer, QuotaConsumerByteRate: spec.Consumer, QuotaRequestPercentage: spec.Percentage} {
		if value == nil {
			continue
		}
		if err := checkRate(key, *value); err != nil {
			return nil, fmt.Errorf("spec.quotas: %w", err)
		}
		if quotas == nil {
			quotas = map[string]float64{}
		}
		quotas[key] = *value
	}
	return quotas, nil
}

func checkRate(key string, value float64) error {
	if !(value > 0) || math.IsInf(value, 0) {
		return fmt.Errorf("%s is %v; it must be above 0", key, value)
	}
	return nil
}

// ParseQuotaOverride reads meta.QuotaOverrideAnnotation, which is there for hands to
// edit, too. nil: there is none.
func ParseQuotaOverride(resource *meta.KafkaUser) (map[string]float64, error) {
	text, ok := resource.Metadata.Annotations[meta.QuotaOverrideAnnotation]
	if !ok {
		return nil, nil
	}
	override := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		if err := readQuota(strings.TrimSpace(part), override); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", meta.QuotaOverrideAnnotation, err)
		}
	}
	return override, nil
}

// readQuota takes one key=value into a map.
func readQuota(part string, into map[string]float64) error {
	key, text, ok := strings.Cut(part, "=")
	if !ok {
		return fmt.Errorf("%.100q is not key=value; remove the annotation to end the override", part)
	}
	key = strings.TrimSpace(key)
	switch key {
	case QuotaProducerByteRate, QuotaConsumerByteRate, QuotaRequestPercentage:
	default:
		return fmt.Errorf("%.100q is no quota; known are %s, %s and %s", key, QuotaProducerByteRate, QuotaConsumerByteRate, QuotaRequestPercentage)
	}
	if _, twice := into[key]; twice {
		return errors.New(key + " stands there twice")
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return fmt.Errorf("%s is %.100q, which is no number", key, text)
	}
	into[key] = value
	return checkRate(key, value)
}

// FormatQuotaOverride writes what ParseQuotaOverride reads.
func FormatQuotaOverride(override map[string]float64) string {
	parts := make([]string, 0, len(override))
	for _, key := range slices.Sorted(maps.Keys(override)) {
		parts = append(parts, key+"="+strconv.FormatFloat(override[key], 'f', -1, 64))
	}
	return strings.Join(parts, ",")
}
