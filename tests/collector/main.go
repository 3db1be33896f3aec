// The core of the OpenTelemetry collector with its OTLP receiver, for tests: collector --config FILE
//
// Its exporter "stdout" writes the spans of each request as one line of OTLP JSON to standard output, before the request is
// answered. The log goes to standard error.
package main

import (
	"context"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "OTLP receiver for tests", Version: "tests"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
				DefaultScheme:     "file",
			},
		},
	})
	// The command itself prints the error.
	if command.Execute() != nil {
		os.Exit(1)
	}
}

// factories returns what a configuration can name: the receiver "otlp" and the exporter "stdout".
func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap(otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	stdout := exporter.NewFactory(
		component.MustNewType("stdout"),
		func() component.Config { return &struct{}{} },
		exporter.WithTraces(newTraces, component.StabilityLevelStable),
	)
	exporters, err := otelcol.MakeFactoryMap(stdout)
	if err != nil {
		return otelcol.Factories{}, err
	}
	return otelcol.Factories{
		Receivers: receivers,
		Exporters: exporters,
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

// newTraces makes the exporter. It has no queue: its error is the receiver's answer.
func newTraces(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Traces, error) {
	var marshaler ptrace.JSONMarshaler
	return exporterhelper.NewTraces(ctx, set, config, func(_ context.Context, traces ptrace.Traces) error {
		line, err := marshaler.MarshalTraces(traces)
		if err != nil {
			return err
		}
		// One write, so that lines of requests at the same time do not mix.
		_, err = os.Stdout.Write(append(line, '\n'))
		return err
	})
}
