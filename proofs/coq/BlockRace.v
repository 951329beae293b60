(** * The block race is lossless and accepts to the depth of v with probability Q(v)(1 - (1 - rho(v))^K)

    The idea: the text that one draft's emission is completed to has a score uniform on (0, 1], whatever the text is:
    the exits of block verification cut (0, 1] at the ratios along the text, and each hands out its own interval. So
    one draft brings the mean of any function of text and score under the target and an independent uniform number
    ([emission_and_score]), and the others, seen from the winner's score s, survive with probability 1 - s each. What
    remains is the integral of K (1 - s)^(K-1). *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token Block Race Uniform.
Import ListNotations.
Open Scope R_scope.

Section BlockRace.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Let Q := text_prob q.
  Let rho := rho p q.

  Lemma rho_decreases c v : rho (c :: v) <= rho v.
  Proof.
    unfold rho. cbn [Rules.rho].
    destruct (minimum_spec (Rules.rho p q v) (capped_ratio p q (c :: v))) as [[H ->] | [H ->]]; lra.
  Qed.

  Definition interval_of (u : emission) : R * R := (low L p q u, high p q u).

  Lemma low_below_high u : low L p q u <= high p q u.
  Proof.
    destruct u as [v c]. unfold low, high. cbn [fst snd]. destruct (length v =? L).
    - apply (rho_bounds V p q Hp).
    - apply rho_decreases.
  Qed.

  (** ** One draft *)

  Definition emission_law : law R emission := emitted V L p (block V L p q).

  (** The mean of a function [a] of the score of an emission. *)
  Definition score_mean (a : continuous_function) (u : emission) : R :=
    integral a (low L p q u) (high p q u) / (high p q u - low L p q u).

  Lemma score_mean_share a u : (high p q u - low L p q u) * score_mean a u = integral a (low L p q u) (high p q u).
  Proof.
    unfold score_mean. destruct (Req_dec (high p q u) (low L p q u)) as [-> | H].
    - rewrite integral_empty. ring.
    - field. lra.
  Qed.

  (** Text and score of what one draft brings: any function of the text, any continuous one of the score. *)
  Theorem emission_and_score (f : text -> R) (a : continuous_function) :
    mean emission_law (fun u => completed V L q f u * score_mean a u)
    = mean (follow V q (S L) []) f * integral a 0 1.
  Proof.
    unfold emission_law. rewrite mean_block by assumption.
    assert (HB : is_value V L p q (fun _ => True) (fun u => completed V L q f u * score_mean a u)
      (fun v l h => mean (follow V q (S L - length v) v) f * integral a l h)).
    { intros v _ HL. split.
      - replace (S L - length v)%nat with (S (L - length v)) by lia.
        rewrite (mean_follow_step V q Hq), <- sum_scale_r. apply sum_ext. intros c _. simpl. ring.
      - intros c _. split.
        + rewrite <- score_mean_share. unfold completed. simpl. ring.
        + intros _. split; [exact I |]. rewrite <- Rmult_plus_distr_l. now rewrite integral_join. }
    pose proof (value_below V L p q Hp Hq _ _ _ HB L [] I eq_refl) as H.
    simpl in H. reals. now rewrite !Rmult_1_l in H.
  Qed.

  (** The same, counting only what is accepted to the depth of [v]. *)
  Theorem reach_and_score v (a : continuous_function) : vocabulary_text V v -> (length v <= L)%nat ->
    mean emission_law (fun u => (if reaches v (fst u) then 1 else 0) * score_mean a u)
    = Q v * integral a 0 (rho v).
  Proof.
    intros Hv HL. unfold emission_law. rewrite mean_block by assumption.
    assert (HB : is_value V L p q (fun u => vocabulary_text V u /\ reaches v u = true) (score_mean a)
      (fun _ l h => integral a l h)).
    { intros u [Hu Hr] HuL. split.
      - rewrite sum_scale_r, (next_total V q Hq). ring.
      - intros c Hc. split; [apply score_mean_share |]. intros _. split; [split |].
        + constructor; [apply in_seq in Hc; lia | exact Hu].
        + apply reaches_iff in Hr as [t ->]. apply reaches_iff. now exists (c :: t).
        + apply integral_join. }
    pose proof (value_reaching V L p q Hp Hq v _ _ Hv HL HB L v [] (eq_sym (app_nil_r v)) eq_refl) as H.
    simpl in H. reals. rewrite Rmult_1_l in H. etransitivity; [| exact H].
    apply emissions_from_ext. intros t c. unfold counted. cbn [fst]. destruct (reaches v (t ++ [])); ring.
  Qed.

  (** The score is uniform on (0, 1]: it is above s with probability 1 - s. *)
  Theorem score_survival s : 0 <= s <= 1 -> mean emission_law (fun u => survives (interval_of u) s) = 1 - s.
  Proof.
    intros Hs. unfold emission_law. rewrite mean_block by assumption.
    assert (HB : is_value V L p q (fun _ => True) (fun u => survives (interval_of u) s)
      (fun _ l h => Rmax h s - Rmax l s)).
    { intros v _ HL. split.
      - rewrite sum_scale_r, (next_total V q Hq). ring.
      - intros c _. split; [apply survives_share, low_below_high |]. intros _. split; [exact I | ring]. }
    pose proof (value_below V L p q Hp Hq _ _ _ HB L [] I eq_refl) as H.
    simpl in H. reals. rewrite !Rmult_1_l in H. rewrite H.
    rewrite (Rmax_left 1 s), (Rmax_right 0 s) by lra. reflexivity.
  Qed.

  (** ** [K] drafts *)

  (** If one draft brings m times the integral over (0, x], then K drafts bring K m times that of (1 - s)^(K-1). *)
  Lemma mean_of_the_race (g : emission -> R) (m x : R) : 0 <= x <= 1 ->
    (forall a, mean emission_law (fun u => g u * score_mean a u) = m * integral a 0 x) ->
    forall K before,
    mean (independent (repeat emission_law K)) (fun us =>
      sum (combine (smallest_among before (map interval_of us)) us) (fun we => fst we * g (snd we)))
    = INR K * m * integral (times (all_survive before) (power_function (pred K))) 0 x.
  Proof.
    intros Hx Hg. induction K as [| K IH]; intros before.
    - cbn [repeat independent]. rewrite mean_ret. simpl. rewrite sum_nil. ring.
    - cbn [repeat]. rewrite mean_independent_cons.
      (* the first emission, then the others, each of which has the first one as a rival *)
      transitivity (
        mean (independent (repeat emission_law K)) (fun us =>
          mean emission_law (fun u => g u * score_mean (all_survive (before ++ map interval_of us)) u))
        + mean emission_law (fun u =>
          INR K * m * integral (times (all_survive (before ++ [interval_of u])) (power_function (pred K))) 0 x)).
      + rewrite (mean_swap (independent (repeat emission_law K))), <- mean_plus. apply mean_ext. intros u.
        rewrite <- IH, <- mean_plus. apply mean_ext. intros us.
        cbn [map smallest_among combine]. rewrite sum_cons. cbn [fst snd interval_of]. unfold score_mean. ring.
      + rewrite (mean_ext _ _ (fun us => m * integral (all_survive (before ++ map interval_of us)) 0 x))
          by (intros; apply Hg).
        rewrite !mean_scale, <- !integral_mean.
        assert (Hothers : integral (mean_function (independent (repeat emission_law K))
            (fun us => all_survive (before ++ map interval_of us))) 0 x
          = integral (times (all_survive before) (power_function K)) 0 x).
        { apply integral_ext; [lra |]. intros s Hs. rewrite mean_function_value. cbn [value times power_function].
          rewrite <- (score_survival s) by lra. rewrite <- mean_independent_product, <- mean_scale.
          apply mean_ext. intros us. rewrite !all_survive_value, map_app, map_map. apply product_app. }
        assert (Hrival : INR K * integral (mean_function emission_law
            (fun u => times (all_survive (before ++ [interval_of u])) (power_function (pred K)))) 0 x
          = INR K * integral (times (all_survive before) (power_function K)) 0 x).
        { destruct K as [| K]; [simpl; ring |]. f_equal. apply integral_ext; [lra |]. intros s Hs.
          rewrite mean_function_value. cbn [value times power_function pred pow].
          rewrite <- (score_survival s) at 1 by lra. rewrite <- mean_scale_r, <- mean_scale.
          apply mean_ext. intros u. rewrite !all_survive_value, map_app, product_app. cbn [map].
          rewrite product_cons. unfold product at 2. simpl. reals. ring. }
        rewrite Hothers. simpl pred. rewrite S_INR.
        replace (INR K * m * _) with (m * (INR K * integral (mean_function emission_law
            (fun u => times (all_survive (before ++ [interval_of u])) (power_function (pred K)))) 0 x)) by ring.
        rewrite Hrival. ring.
  Qed.

  Variable K : nat.
  Hypothesis HK : (0 < K)%nat.

  Let emitted_by_race : law R emission := emitted_from V L p K (block_race V L p q smallest_uniform).

  Lemma mean_block_race (g : emission -> R) (m x : R) : 0 <= x <= 1 ->
    (forall a, mean emission_law (fun u => g u * score_mean a u) = m * integral a 0 x) ->
    mean emitted_by_race g = m * (1 - (1 - x) ^ K).
  Proof.
    intros Hx Hg. unfold emitted_by_race, emitted_from, block_race. rewrite mean_bind.
    rewrite (mean_ext _ _ (fun xs => mean (independent (map (block V L p q) xs)) (fun us =>
      sum (combine (smallest_uniform (map interval_of us)) us) (fun we => fst we * g (snd we)))))
      by (intros; now rewrite mean_bind).
    rewrite mean_independent_bind. etransitivity; [exact (mean_of_the_race g m x Hx Hg K []) |].
    destruct K as [| n]; [lia |]. cbn [pred].
    rewrite <- (integral_power n x) by lra.
    rewrite (integral_ext (times (all_survive []) (power_function n)) (power_function n)); [ring | lra |].
    intros s _. cbn [value times]. rewrite all_survive_value. unfold product. simpl. reals. ring.
  Qed.

  Lemma block_race_means f : mean (text_after V L q emitted_by_race) f = mean (follow V q (S L) []) f.
  Proof.
    rewrite mean_text_after.
    rewrite (mean_block_race _ (mean (follow V q (S L) []) f) 1 ltac:(lra) (emission_and_score f)).
    replace (1 - 1) with 0 by ring. rewrite pow_i by exact HK. ring.
  Qed.

  Theorem block_race_is_lossless : lossless V L q (text_after V L q emitted_by_race).
  Proof. apply lossless_by_means; [exact Hq | exact block_race_means]. Qed.

  Theorem block_race_reach v : vocabulary_text V v -> (length v <= L)%nat ->
    probability emitted_by_race (fun u => reaches v (fst u)) = Q v * (1 - (1 - rho v) ^ K).
  Proof.
    intros Hv HL. unfold probability. apply mean_block_race; [apply (rho_bounds V p q Hp) |].
    intros a. now apply reach_and_score.
  Qed.
End BlockRace.
