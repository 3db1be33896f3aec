import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/**
 * One node of OpenSearch for tests: {@code java -cp ... Main FOLDER PORT}. Prints {@code ready: ADDRESS} once it answers, keeps
 * its data in FOLDER, and ends in good order when its standard input does, or at SIGTERM.
 */
public final class Main {
  /** The constructor that takes modules from the class path, in place of a folder of an installation, is for subclasses. */
  private static final class LocalNode extends Node {
    LocalNode(Settings settings) {
      super(
          InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "tests"),
          List.of(Netty4Plugin.class),
          false);
    }
  }

  public static void main(String[] args) throws Exception {
    Settings settings =
        Settings.builder()
            .put("path.home", args[0])
            .put("path.data", args[0] + "/data")
            .put("cluster.name", "pilothouse-tests")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", args[1])
            .put("transport.port", "0")
            // Both say by what an installation would have brought with it.
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            // A nearly full disk of the machine must not make indices read-only.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
    Node node = new LocalNode(settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
    node.start();
    System.out.println("ready: " + node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress());
    while (System.in.read() >= 0) {
      // Whatever is written there means nothing.
    }
    System.exit(0);
  }

  private static void close(Node node) {
    try {
      node.close();
    } catch (IOException error) {
      System.err.println("closing the node: " + error);
    }
  }
}
