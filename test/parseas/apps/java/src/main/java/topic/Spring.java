package topic;

import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** Spring PORT: one route, whose handler reads the query by @RequestParam. */
@SpringBootApplication
@RestController
public class Spring {
  @RequestMapping("/topic")
  public Map<String, Object> topic(
      @RequestParam(required = false) String id,
      @RequestParam(name = "topic_id", required = false) String topicId) {
    return Saw.of(id, topicId);
  }

  public static void main(String[] args) {
    SpringApplication.run(Spring.class, "--server.address=127.0.0.1", "--server.port=" + args[0],
        "--logging.level.root=off", "--spring.main.banner-mode=off");
  }
}

/** What a handler saw. */
class Saw {
  static Map<String, Object> of(String id, String topicId) {
    Map<String, Object> saw = new LinkedHashMap<>();
    saw.put("saw", true);
    saw.put("id", id);
    saw.put("topic_id", topicId);
    return saw;
  }
}
